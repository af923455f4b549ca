"""Where the command line finds things. The only place that reads `REEF_HOME`."""

from __future__ import annotations

import os
from pathlib import Path

from daemon.paths import Home


def home() -> Home:
    """`$REEF_HOME`, or `~/.reef`."""
    return Home(Path(os.environ.get("REEF_HOME") or "~/.reef").expanduser().absolute())


def shown(path: Path) -> str:
    """A path as a person would write it."""
    user = os.path.expanduser("~")
    text = str(path)
    return "~" + text[len(user) :] if user != "/" and text.startswith(user + "/") else text


def client_settings(url: str, home: Home, model: str = "") -> list[tuple[str, str]]:
    """What an editor or an SDK asks for, by the words that its settings use."""
    settings = [("OpenAI base URL", f"{url}/v1"), ("Anthropic's URL", url), ("API key", f"the text of {shown(home.client_token)}")]
    return [*settings, ("Model", model)] if model else settings

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

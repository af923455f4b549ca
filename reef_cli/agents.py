"""What `install`, `update`, `uninstall` and `adapters` share: what an adapter is told, and the launcher's link on the PATH."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.errors import ConfigError, NotFound, ReefError
from daemon.harness.adapter import Adapter, InstallContext
from daemon.harness_tree import HarnessTree
from reef_cli import output

if TYPE_CHECKING:
    from daemon.paths import Home
    from reef_cli.client import Client

_LONGEST_REPLY_TOKENS = 4096
_CONTEXT_TOKENS = 8192  # where the server does not say


def bare_context(home: Home, name: str) -> InstallContext:
    """Enough to look at an agent or to remove it; the daemon may be down."""
    return InstallContext(home.agents / name, "", home.client_token, "", 0, 0, name)


def served_context(client: Client, name: str, release_id: str = "") -> InstallContext:
    """What the running daemon serves in the agent's scenario, which has the agent's name: the head, or `release_id`."""
    status = client.get("/reef/status")
    engine = output.part(status, "engine")
    window = engine.get("context_tokens")
    context_tokens = window if isinstance(window, int) else _CONTEXT_TOKENS
    files: dict[str, str] = {}
    release = ""
    try:
        harness = client.get("/reef/harness", {"release_id": release_id}, scenario=name)
        files = {path: text for path, text in output.part(harness, "files").items() if isinstance(text, str)}
        release = output.text(harness.get("release_id"), "")
    except NotFound:
        if release_id:
            raise
        # no release of this agent's scenario yet: nothing to lay down
    return InstallContext(
        home=client.home.agents / name,
        base_url=client.daemon.url,
        client_token_path=client.home.client_token,
        model_id=output.text(engine.get("model")),
        context_tokens=context_tokens,
        max_tokens=min(_LONGEST_REPLY_TOKENS, context_tokens // 4),
        scenario=name,
        tree=HarnessTree(files),
        release_id=release,
    )


@contextlib.contextmanager
def used(adapter: Adapter, home: Home) -> Iterator[Adapter]:
    """While an adapter works: what takes long is said on stderr, and what one that is not ours does wrong is told of as its author's.

    Raises:
        ConfigError: it failed; names it and the log.
    """
    saying, log = logging.StreamHandler(sys.stderr), logging.getLogger("reef.adapters")
    log.addHandler(saying)
    log.setLevel(logging.INFO)
    try:
        yield adapter
    except Exception as error:
        if isinstance(error, ReefError) or type(adapter).__module__.partition(".")[0] == "adapters":
            raise
        from daemon.failure import log_bug

        written = log_bug(error, f"the adapter {adapter.name}", home)
        where = f" The details are in {written}." if written is not None else ""
        raise ConfigError(f"The adapter {adapter.name!r} failed: {type(error).__name__}: {error}.", f"Tell its author.{where}") from error
    finally:
        log.removeHandler(saying)


def usual_links(launcher: Path) -> list[Path]:
    """The links to `launcher` that an installation may have made, noted or not."""
    return [link for folder in _own_folders() if is_link_to(link := folder / launcher.name, launcher)]


def link_on_path(launcher: Path) -> tuple[Path | None, str]:
    """Make the launcher's name something to type: a link in a folder of the user's own that is on the PATH.

    Returns:
        The link, if it is there now, and a sentence: how to start the agent.
    """
    on_path = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    for folder in _own_folders():
        if folder not in on_path:
            continue
        link = folder / launcher.name
        if is_link_to(link, launcher):
            return link, f"Start it in a project's folder: {launcher.name}"
        if link.exists() or link.is_symlink():
            return None, f"{link} is not Reef's and stays. Start it in a project's folder: {launcher}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            link.symlink_to(launcher)
        except OSError:
            continue
        return link, f"Start it in a project's folder: {launcher.name}"
    return None, f"Start it in a project's folder: {launcher}"


def is_link_to(link: Path, launcher: Path) -> bool:
    return link.is_symlink() and os.readlink(link) == str(launcher)


def _own_folders() -> list[Path]:
    """~/.local/bin, and where `reef` itself lies if that is the user's."""
    home = Path(os.path.expanduser("~"))
    found = [home / ".local" / "bin"]
    reef = shutil.which("reef")
    if reef is not None and Path(reef).parent.is_relative_to(home):
        found.append(Path(reef).parent)
    return found

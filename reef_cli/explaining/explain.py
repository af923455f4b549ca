"""Writes the page about a release into a file."""

from __future__ import annotations

from pathlib import Path

from daemon.errors import BadRequest
from daemon.files import write_atomic
from reef_cli.client import Client
from reef_cli.explaining import page_html, page_markdown
from reef_cli.explaining.story import tell

FORMS = {"html": page_html.page, "md": page_markdown.page}


def write(client: Client, scenario: str, release: str, form: str, path: Path | None, *, with_sessions: bool) -> Path:
    """One file, complete in itself: it loads nothing from anywhere.

    Args:
        form: "html" or "md".
        path: a file, or a folder to put it in; None: `SCENARIO-RELEASE.html` where one stands.
        with_sessions: with what the sessions said that it learned from; otherwise only how many they were.

    Returns:
        Where it lies now, absolute.

    Raises:
        NotFound: there is no such release. BadRequest: `path` is a device. StorageError: the disk refuses.
    """
    story = tell(client, scenario, release, with_sessions=with_sessions)
    name = f"{scenario}-{story.name}.{form}"
    target = (path / name if path is not None and path.is_dir() else path or Path(name)).absolute()
    if target.exists() and not target.is_file():
        raise BadRequest(f"{target} is no file that could be written anew.", "Name another place: -o FILE")
    write_atomic(target, FORMS[form](story))
    return target

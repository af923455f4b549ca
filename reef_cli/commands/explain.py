"""`reef explain R`: a page about a release, for others."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daemon.errors import BadRequest
from reef_cli import output
from reef_cli.client import Client
from reef_cli.commands.show import Release
from reef_cli.options import AsJSON, Scenario


def explain(
    release: Release,
    html: Annotated[bool, typer.Option("--html", help="A page for a browser; this is the default.")] = False,
    markdown: Annotated[bool, typer.Option("--md", help="Markdown, for a pull request or a wiki.")] = False,
    file: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")] = None,
    with_sessions: Annotated[
        bool, typer.Option("--with-sessions", help="With what the sessions said that it learned from; look at it before you show it.")
    ] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """What changed word by word, the loss curve, the evaluation task by task, the chain around it, and what makes it reproducible.

    The file is complete: no script, no font and nothing else is loaded from anywhere. What sessions said is left out, and with it the
    demonstrations, which are taken from them.

    \b
    Examples:
      reef explain r14
      reef explain head --md -o r14.md
    """
    from reef_cli.explaining import explain as pages

    if html and markdown:
        raise BadRequest("One file is one form.", "Name --html or --md.")
    path = pages.write(Client(), scenario, release, "md" if markdown else "html", file, with_sessions=with_sessions)
    if as_json:
        output.print_json({"path": str(path), "size_bytes": path.stat().st_size, "with_sessions": with_sessions})
        return
    print(f"Written: {path}")
    if with_sessions:
        print("It holds what sessions said. Look at it before you show it to others.")

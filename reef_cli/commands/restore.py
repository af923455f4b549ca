"""`reef restore FILE`: put a backup back."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON

File = Annotated[Path, typer.Argument(metavar="FILE", help="As `reef backup` made it.")]
Force = Annotated[bool, typer.Option("--force", help="Move what is in the home aside first, into a folder of it.")]


def restore(file: File, force: Force = False, as_json: AsJSON = False) -> None:
    """The daemon must be down. The backup is unpacked and checked beside what is there, and takes its place only then.

    A backup of an older Reef is brought up to date at the next start; one of a newer Reef is refused.

    \b
    Examples:
      reef restore reef-backup-20261130-010203.tar.zst
      reef restore old.tar.zst --force
    """
    become(command("restore", home(), [str(file.absolute()), *(["--force"] if force else []), *(["--json"] if as_json else [])]))

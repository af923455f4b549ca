"""`reef backup [FILE]`: one file with all that cannot be made again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON

File = Annotated[Path | None, typer.Argument(metavar="FILE", help="Where to; a folder, or nothing, for a dated name.")]
Check = Annotated[bool, typer.Option("--check", help="Instead: verify this backup and say what is in it.")]


def backup(file: File = None, check: Check = False, as_json: AsJSON = False) -> None:
    """The experience, the releases with their LoRAs, the settings, the tasks; verified once it is written.

    It appears under its name only when it is whole. Tokens, base models, installed agents and runs are not in it. Keep it as
    private as the home: it holds what was said.

    \b
    Examples:
      reef backup
      reef backup /mnt/disk/reef.tar.zst
      reef backup /mnt/disk/reef.tar.zst --check
    """
    more = [*([str(file.absolute())] if file is not None else []), *(["--check"] if check else []), *(["--json"] if as_json else [])]
    become(command("backup", home(), more))

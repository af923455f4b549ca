"""`reef fsck`: verify the home, with the daemon up or down; repair it, with the daemon down."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON

Repair = Annotated[bool, typer.Option("--repair", help="Mend the releases from other copies; the daemon must be down.")]
Source = Annotated[
    Path | None,
    typer.Option("--from", metavar="BACKUP|CLONE", help="Take what is missing from there: a backup, or a clone of versions.git."),
]


def fsck(repair: Repair = False, source: Source = None, as_json: AsJSON = False) -> None:
    """Hashes, refs, LFS objects, the chain of releases, the database, and whether they agree.

    It changes nothing without --repair. That brings back what is damaged from any other copy with the same hash, in the home or in
    --from; lets a head that leads nowhere, or to a commit that no Reef made, be the last release that is whole; and removes what killed
    writers left. It says each thing that it did.

    \b
    Examples:
      reef fsck
      reef fsck --repair
      reef fsck --repair --from reef-backup-20261130-010203.tar.zst
    """
    more = [*(["--repair"] if repair else []), *(["--from", str(source.absolute())] if source is not None else [])]
    become(command("fsck", home(), [*more, *(["--json"] if as_json else [])]))

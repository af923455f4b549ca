"""`reef fsck`: verify the home, with the daemon up or down."""

from __future__ import annotations

from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON


def fsck(as_json: AsJSON = False) -> None:
    """Hashes, refs, LFS objects, the chain of releases, the database, and whether they agree. It changes nothing.

    \b
    Examples:
      reef fsck
    """
    become(command("fsck", home(), ["--json"] if as_json else []))

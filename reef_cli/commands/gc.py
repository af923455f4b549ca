"""`reef gc`: make room, with the daemon up or down."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output
from reef_cli.client import Client
from reef_cli.daemon_process import command
from reef_cli.locations import home
from reef_cli.options import AsJSON
from reef_cli.running import find

if TYPE_CHECKING:
    from daemon.records import JSONObject

DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what could go and why; nothing is removed.")]


def gc(dry_run: DryRun = False, as_json: AsJSON = False) -> None:
    """The first release, what serves, the last known good, pinned and held releases, and the newest ones keep their weights
    (storage.keep_releases, 20). A release without its weights stays in the list, with its rules and how it was judged, and cannot
    serve again. Keep one whole with: reef pin.

    \b
    Examples:
      reef gc --dry-run
      reef gc
    """
    answer = Client().post("/reef/gc", {"dry_run": dry_run}) if find(home()) is not None else _alone(dry_run)
    if as_json:
        output.print_json(answer)
        return
    for item in output.rows(answer, "items"):
        what, kind = output.text(item.get("what")), output.text(item.get("kind"))
        print(output.printable(f"{output.size(item.get('size_bytes')):>9}  {kind}: {what}: {output.text(item.get('why'))}"))
    freed = output.size(answer.get("freed_bytes"))
    if not output.rows(answer, "items"):
        print("Nothing can go.")
    elif dry_run:
        print(f"{freed} can be freed. Nothing was removed; to do it: reef gc")
    else:
        print(f"{freed} freed.")


def _alone(dry_run: bool) -> JSONObject:
    """With the daemon down; what goes wrong is told by the process itself."""
    done = subprocess.run(command("gc", home(), ["--dry-run"] if dry_run else []), stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    answer: JSONObject = json.loads(done.stdout)
    return answer

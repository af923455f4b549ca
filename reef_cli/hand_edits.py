"""What a person changed by hand in an installed agent's harness: found by reading the agent's files back, and given to the daemon."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from daemon.errors import Conflict
from daemon.harness.adapter import Adapter, InstallContext
from daemon.harness.installed import read_manifest, read_tree
from daemon.harness.installing import Place
from daemon.harness_tree import HarnessTree
from reef_cli import output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class HandEdits:
    release_id: str  # of the harness that was laid down; empty before the first release
    was: HarnessTree
    now: HarnessTree
    seen: Mapping[str, str]  # path below the agent's folder → text that was read

    @property
    def changed(self) -> list[str]:
        """What differs, a path of the tree each, with what happened to it."""
        found: list[str] = []
        for path in sorted({*self.was.files, *self.now.files}):
            before, after = self.was.files.get(path), self.now.files.get(path)
            if before != after:
                found.append(f"{path} ({'added' if before is None else 'removed' if after is None else 'changed'})")
        return found


def find(adapter: Adapter, context: InstallContext) -> HandEdits:
    """Compare what the agent's files say with the tree that was laid down. Raises DataError for a file that cannot be read."""
    manifest = read_manifest(context.home)
    was = read_tree(context.home)
    seen = Place(context.home).current(adapter.reads)
    now = adapter.read_back(replace(context, tree=was), seen) if manifest is not None else was
    return HandEdits(manifest.release_id if manifest is not None else "", was, now, seen)


def publish(client: Client, scenario: str, title: str, edits: HandEdits, confirm: bool) -> JSONObject:
    """Make the changes a release of the person's.

    Args:
        confirm: what the guard finds in them is meant; else it is shown, and asked for where a person looks on.

    Raises:
        Conflict: what serves has changed at the same places, or what the guard found is not confirmed; nothing has changed.
    """
    body: JSONObject = {"files": dict(edits.now.files), "base_release_id": edits.release_id, "note": f"in {title}"}
    client.post("/reef/scenarios", {"name": scenario})
    answer = client.post(scenario_path(scenario, "harness"), body)
    findings = output.rows(answer, "findings")
    if not findings:
        return answer
    for one in findings:
        where = f"{output.text(one.get('path'))}:{output.text(one.get('line'))}"
        print(f"  {where}  {output.text(one.get('reason'))}: {output.printable(output.text(one.get('span')))}", file=sys.stderr)
    if not (confirm or _asked()):
        raise Conflict(
            "The guard found what is shown above in your changes; they are not published.",
            "If it is meant: reef update AGENT --confirm. To drop your changes: reef update AGENT --discard",
        )
    confirmed: list[JSON] = [one["id"] for one in findings]
    return client.post(scenario_path(scenario, "harness"), {**body, "confirmed": confirmed})


def _asked() -> bool:
    import typer

    return sys.stdin.isatty() and typer.confirm("Publish it all the same?", default=False, err=True)

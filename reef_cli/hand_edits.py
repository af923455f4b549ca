"""What a person changed by hand in an installed agent's harness, given to the daemon."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from daemon.errors import Conflict
from daemon.harness.edits import HandEdits
from reef_cli import output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject


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

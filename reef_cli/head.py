"""The operations that move a scenario's head: each sends the head that the caller saw."""

from __future__ import annotations

from reef_cli import output
from reef_cli.client import Client, scenario_path


def move(operation: str, scenario: str, release: str | None, as_json: bool) -> None:
    """Ask the daemon for `promote`, `rollback` or `undo`.

    Raises:
        Conflict: somebody else moved the head meanwhile, or nothing would change.
    """
    client = Client()
    head = client.get(scenario_path(scenario, "releases", "head")).get("release_id")
    answer = client.post(
        scenario_path(scenario, operation), {"expected_head": head, **({"release_id": release} if release is not None else {})}
    )
    if as_json:
        output.print_json(answer)
        return
    new = output.text(answer.get("release_id"))
    print(f"{new} serves in '{scenario}' now ({output.text(head)} before): {output.text(answer.get('change'), operation)}")
    print(f"  Sessions under way keep their release until they are idle. To take it back: reef undo -s {scenario}")

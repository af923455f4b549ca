"""What a person changed by hand in an installed agent's harness, given to the daemon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.harness.edits import HandEdits
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.consent import Consent, confirmed

if TYPE_CHECKING:
    from daemon.records import JSONObject


def publish(client: Client, scenario: str, title: str, edits: HandEdits, consent: Consent, as_json: bool) -> JSONObject:
    """Make the changes a release of the person's.

    Args:
        consent: to what the guard finds in them; for the rest the person is asked, where one looks on: an agent may have written them.

    Raises:
        Conflict: what serves has changed at the same places, or nobody said yes; nothing has changed.
    """
    body: JSONObject = {"files": dict(edits.now.files), "base_release_id": edits.release_id, "note": f"in {title}"}
    client.post("/reef/scenarios", {"name": scenario})
    answer = client.post(scenario_path(scenario, "harness"), body)
    if not output.rows(answer, "findings"):
        return answer
    look, again = f"reef update {scenario} --discard  drops your changes", f"reef update {scenario}"
    yes = confirmed(answer, f"Publish what you changed in {title}", look, again, consent, as_json)
    return client.post(scenario_path(scenario, "harness"), {**body, "confirmed": yes})

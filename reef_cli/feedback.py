"""What `reef good` and `reef bad` share: which reply is meant, and the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.errors import BadRequest, NotFound
from reef_cli import output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSONObject


def send(score: float, words: list[str], last: bool, scenario: str, correction: str | None, as_json: bool) -> None:
    """Report on one reply.

    Raises:
        BadRequest: neither a receipt nor --last was given.
    """
    receipt, note = _understand(words, last)
    client = Client()
    if receipt is None:
        receipt = _latest(client, scenario)
    feedback: JSONObject = {}
    if note:
        feedback["note"] = note
    if correction:
        feedback["correction"] = correction
    body: JSONObject = {"score": score, "references": [receipt]}
    if feedback:
        body["feedback"] = feedback
    answer = client.post("/reef/report", body, scenario)
    if as_json:
        output.print_json({**answer, "references": [receipt]})
    else:
        print(f"Noted for {receipt}: {'good' if score > 0 else 'bad'}{', with a correction' if correction else ''}.")


def _understand(words: list[str], last: bool) -> tuple[str | None, str]:
    if last:
        return None, " ".join(words)
    if not words or not words[0].startswith("rec_"):
        raise BadRequest("Which reply is meant?", "Give its receipt (rec_…, see `reef session ID`), or --last for the latest one.")
    return words[0], " ".join(words[1:])


def _latest(client: Client, scenario: str) -> str:
    sessions = output.rows(client.get(scenario_path(scenario, "sessions"), {"limit": 1}), "sessions")
    receipt = sessions[0].get("last_receipt") if sessions else None
    if isinstance(receipt, str) and receipt:
        return receipt
    if sessions:
        detail = client.get(scenario_path(scenario, "sessions", output.text(sessions[0].get("id"))))
        receipts = [turn.get("receipt") for turn in output.rows(detail, "turns")]
        if receipts and isinstance(receipts[-1], str):
            return receipts[-1]
    raise NotFound(f"The scenario '{scenario}' has no reply yet.", "Name another with --scenario; `reef status` lists them.")

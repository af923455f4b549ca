"""What `reef good` and `reef bad` share: which reply or session is meant, and the report."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from daemon.errors import BadRequest, NotFound
from reef_cli import output
from reef_cli.client import Client, scenario_path

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

Words: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[RECEIPT] [NOTE]", help="Which reply, by default the latest, and a note in your own words.")
]
Last: TypeAlias = Annotated[bool, typer.Option("--last", help="The scenario's latest reply, without asking.")]
Session: TypeAlias = Annotated[
    str, typer.Option("--session", metavar="ID", help="Instead of one reply all of a session that have no score of their own.")
]

_LOOKED_AT = 20  # sessions, the newest first


def send(score: float, words: list[str], last: bool, session: str, scenario: str, correction: str | None, as_json: bool) -> None:
    """Report on one reply, or on a session.

    Raises:
        BadRequest: a receipt and a session, or a correction for a session.
        NotFound: there is no reply yet.
    """
    receipt, note = _understand(words)
    if session and (receipt or last or correction):
        raise BadRequest("A session is judged as a whole.", "Leave out the receipt, --last and --correction, or leave out --session.")
    client = Client()
    body: JSONObject = {"score": score}
    if session:
        body["session"] = session
    else:
        receipt = receipt or _latest(client, scenario, ask=not last)
        body["references"] = [receipt]
    feedback: JSONObject = {}
    if note:
        feedback["note"] = note
    if correction:
        feedback["correction"] = correction
    if feedback:
        body["feedback"] = feedback
    answer = client.post("/reef/report", body, scenario)
    references: JSON = answer.get("references") if session else [receipt]
    if as_json:
        output.print_json({**answer, "references": references})
        return
    judged = f"{'good' if score > 0 else 'bad'}{', with a correction' if correction else ''}"
    count = len(references) if isinstance(references, list) else 0
    replies = f"{count} {'reply' if count == 1 else 'replies'}"
    print(f"Noted for {f'{replies} of the session {session}' if session else receipt}: {judged}.")


def _understand(words: list[str]) -> tuple[str, str]:
    """The receipt, if the first word is one, and the note."""
    if words and words[0].startswith("rec_"):
        return words[0], " ".join(words[1:])
    return "", " ".join(words)


def _where_replies_are(client: Client) -> str:
    """The next step of a person who wanted to judge a reply where none is."""
    scenarios = output.rows(client.get("/reef/status"), "scenarios")
    names = [output.printable(output.text(item.get("name"))) for item in scenarios if item.get("records")]
    if names:
        return f"There are replies in {', '.join(names)}: add -s {names[0]}"
    return "Ask something first, in an agent or an editor: `reef status` shows where to point it."


def _latest(client: Client, scenario: str, *, ask: bool) -> str:
    """The scenario's latest reply; a person is shown what it says, and asked, where one looks on."""
    sessions = output.rows(client.get(scenario_path(scenario, "sessions"), {"limit": _LOOKED_AT}), "sessions")
    with_turns = (session for session in sessions if session.get("turns") != 0)
    session = next(with_turns, sessions[0] if sessions else {})  # one with a title or a completion alone only where there is no other
    receipt = session.get("last_receipt")
    if not isinstance(receipt, str) or not receipt:
        raise NotFound(f"The scenario '{scenario}' has no reply yet.", _where_replies_are(client))
    if ask:
        record = output.part(client.get(scenario_path(scenario, "records", receipt)), "payload")
        said = output.printable(output.shorten(output.text(output.part(record, "reply").get("content"), "(a tool call)"), 100))
        print(f"{receipt}, {output.age(record.get('created_at'))}: {said}", file=sys.stderr)
        if sys.stdin.isatty() and sys.stderr.isatty():
            typer.confirm("This reply?", default=True, abort=True, err=True)
    return receipt

"""`reef session ID`: one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output, transcript
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario

if TYPE_CHECKING:
    from daemon.records import JSONObject


def session(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `reef sessions` lists it.")],
    full: Annotated[bool, typer.Option("--full", help="Fold no long texts, and show what asides asked.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """Each turn shows what it adds, its receipt, the release that answered, what its next turn and reports say of it.

    Branches, retries and compactions are marked; requests for a title, a summary or a commit message take one line.

    \b
    Examples:
      reef session ses_0ne6…
      reef session ses_0ne6… --full
    """
    answer = Client().get(scenario_path(scenario, "sessions", id))
    if as_json:
        output.print_json(answer)
        return
    print(output.paint(_heading(answer), output.BOLD))
    line = 0
    for turn in output.rows(answer, "turns"):
        if turn.get("kind") == "aside" and not full:
            print(output.paint(transcript.aside(turn), output.DIM))
            continue
        for mark in transcript.marks(turn, line):
            print(output.paint(mark, output.BOLD))
        line = int(output.text(turn.get("line"), "0"))
        transcript.print_turn(turn, full=full)


def _heading(answer: JSONObject) -> str:
    facts = [output.printable(output.text(answer.get("id")))]
    rows = output.rows(answer, "turns")
    turns = sum(row.get("kind") == "turn" and row.get("step") not in ("retry", "choice") for row in rows)
    asides, reports = (answer.get(name) for name in ("asides", "reports"))
    for value, name in ((turns, "turn"), (asides, "aside"), (reports, "report")):
        if value or name == "turn":
            facts.append(f"{output.text(value)} {name}{'' if value == 1 else 's'}")
    releases = answer.get("releases")
    if isinstance(releases, list) and releases:
        facts.append(", ".join(output.printable(output.text(item)) for item in releases))
    if answer.get("updated_at"):
        facts.append(output.age(answer.get("updated_at")))
    return " · ".join(facts)

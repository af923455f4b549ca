"""`reef sessions`: what was recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Limit, Scenario

if TYPE_CHECKING:
    from daemon.records import JSON


def sessions(
    query: Annotated[str, typer.Option("--search", "-q", metavar="WORDS", help='Only those with these words or "phrases".')] = "",
    limit: Limit = 20,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """A session is the requests that belong to one conversation of one agent.

    \b
    Examples:
      reef sessions
      reef sessions -s pi -q "commit message"
    """
    answer = Client().get(scenario_path(scenario, "sessions"), {"limit": limit, "q": query})
    if as_json:
        output.print_json(answer)
        return
    rows = [
        (
            output.text(item.get("id")),
            output.age(item.get("updated_at")),
            output.text(item.get("turns")),
            output.text(item.get("reports")),
            _releases(item.get("releases")),
            output.shorten(output.text(item.get("snippet"), "") or output.text(item.get("title"), ""), 80),
        )
        for item in output.rows(answer, "sessions")
    ]
    nothing = f"No session in '{scenario}'{' matches' if query else ' yet'}. `reef status` lists the scenarios."
    output.print_table(("session", "last", "turns", "reports", "release", "found" if query else "begins"), rows, nothing)


def _releases(value: JSON) -> str:
    return ", ".join(output.text(item) for item in value) if isinstance(value, list) else output.text(value)

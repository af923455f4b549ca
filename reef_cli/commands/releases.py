"""`reef releases`: the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Limit, Scenario

if TYPE_CHECKING:
    from daemon.records import JSONObject


def releases(limit: Limit = 20, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """● serves now, ○ held: it waits for more evidence or for you.

    \b
    Examples:
      reef releases
      reef releases -s pi --json
    """
    answer = Client().get(scenario_path(scenario, "releases"), {"limit": limit})
    if as_json:
        output.print_json(answer)
        return
    rows = [
        (
            output.text(item.get("release_id")),
            output.age(item.get("recorded_at")),
            output.text(item.get("operation")),
            output.text(item.get("recipe"), ""),
            output.text(item.get("change"), ""),
            _state(item),
        )
        for item in output.rows(answer, "releases")
    ]
    output.print_table(
        ("release", "made", "by", "recipe", "what changed and why", ""), rows, f"The scenario '{scenario}' has no release yet."
    )


def _state(item: JSONObject) -> str:
    if item.get("current"):
        return "● serving"
    return "○ held" if item.get("pending") else ""

"""`reef runs`: what recipes did."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.errors import BadRequest
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.following import verdict
from reef_cli.options import AsJSON, Limit, Scenario
from reef_cli.outline import outline


def runs(
    id: Annotated[str, typer.Argument(metavar="RUN", help="Show this one.")] = "",
    cancel: Annotated[bool, typer.Option("--cancel", help="End the run; its experience can be used again.")] = False,
    limit: Limit = 20,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """A run is one execution of a recipe, from selection to decision.

    \b
    Examples:
      reef runs
      reef runs run_0ne6… --cancel
    """
    if cancel and not id:
        raise BadRequest("Which run is meant?", "reef runs lists them; then: reef runs RUN --cancel")
    client = Client()
    if id:
        path = scenario_path(scenario, "runs", id)
        answer = client.delete(path) if cancel else client.get(path)
        if as_json:
            output.print_json(answer)
        elif cancel:
            print(f"Run {id} is cancelled.")
        else:
            print("\n".join(outline(answer)))
        return
    answer = client.get(scenario_path(scenario, "runs"), {"limit": limit})
    if as_json:
        output.print_json(answer)
        return
    rows = [
        (
            output.text(item.get("run_id", item.get("id"))),
            output.age(item.get("started_at")),
            output.text(item.get("recipe")),
            output.text(item.get("trigger"), ""),
            output.text(item.get("phase"), "") if not item.get("ended_at") else "",
            verdict(item) if item.get("ended_at") else output.text(item.get("status")),
        )
        for item in output.rows(answer, "runs")
    ]
    output.print_table(("run", "started", "recipe", "by", "at", "decision"), rows, f"No run in '{scenario}' yet. Start one: reef evolve")

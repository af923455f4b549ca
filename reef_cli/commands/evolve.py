"""`reef evolve`: one run, now."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.following import follow, verdict
from reef_cli.options import AsJSON, Scenario

if TYPE_CHECKING:
    from daemon.records import JSONObject


def evolve(
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="NAME", help="Instead of the configured one: demos, sft, or package.module:Class.")
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything but publish.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """It shows the phases, the steps with their loss, the tasks evaluated, and the decision with its reason.
    Ctrl-C stops watching; the run goes on.

    \b
    Examples:
      reef evolve
      reef evolve --recipe demos --dry-run
    """
    client = Client()
    body: JSONObject = {"dry_run": dry_run}
    if recipe:
        body["recipe"] = recipe
    started = client.post(scenario_path(scenario, "runs"), body)
    run_id = output.text(started.get("run_id", started.get("id")))
    try:
        run = follow(client, scenario, run_id)
    except KeyboardInterrupt:
        print(
            f"\nRun {run_id} goes on. See it: reef runs {run_id} -s {scenario}; end it: reef runs {run_id} --cancel -s {scenario}",
            file=sys.stderr,
        )
        raise
    if as_json:
        output.print_json(run)
    else:
        print(verdict(run))
        _next(run, scenario)
    if run.get("status") in ("failed", "cancelled"):
        raise typer.Exit(1)


def _next(run: JSONObject, scenario: str) -> None:
    release = run.get("release_id")
    if run.get("verdict") == "promoted" and release:
        print(f"  Look at it: reef show {release} -s {scenario}. Take it back: reef undo -s {scenario}")
    elif run.get("verdict") == "held" and release:
        print(f"  Look at it: reef diff head {release} -s {scenario}. Let it serve: reef promote {release} -s {scenario}")
    elif run.get("verdict") == "nothing" and output.text(run.get("sentence")).startswith("not enough"):
        print('  What counts is what you call good or correct: reef good --last, or reef bad --last --correction "as it should be".')
        print("  A run waits for as many as reef.batch_size says (reef config).")

"""`reef pin R`."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.commands.show import Release
from reef_cli.options import AsJSON, Scenario


def pin(
    release: Release,
    remove: Annotated[bool, typer.Option("--remove", help="Take the pin off.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """Its weights stay, so that a rollback can always reach it. What serves does not change.

    \b
    Examples:
      reef pin r4
      reef pin r4 --remove
    """
    client = Client()
    answer = (
        client.delete(scenario_path(scenario, "pins", release))
        if remove
        else client.post(scenario_path(scenario, "pins"), {"release_id": release})
    )
    if as_json:
        output.print_json(answer)
        return
    name = output.text(answer.get("release_id"), release)
    if remove:
        done, before = "has no pin now; reef gc may collect its weights", "is not pinned; nothing changed"
    else:
        done, before = "is pinned: it is kept whole", "is pinned already; nothing changed"
    print(f"{name} {done if answer.get('changed') else before}.")
    pins = answer.get("pins")
    if isinstance(pins, list) and pins:
        print(f"  Pinned in '{scenario}': {', '.join(output.text(one) for one in pins)}")

"""`reef dismiss R`."""

from __future__ import annotations

import sys

import typer

from daemon.errors import BadRequest, Conflict
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.commands.show import Release
from reef_cli.options import AsJSON, Scenario, Yes


def dismiss(release: Release, yes: Yes = False, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """A held candidate that you do not want goes: it cannot be promoted any more, and its weights are removed. This cannot be undone.

    Its rules and its evaluation stay to be looked at, like those of a rejected one.

    \b
    Examples:
      reef dismiss r5
      reef dismiss r5 --yes
    """
    client = Client()
    found = client.get(scenario_path(scenario, "releases", release))
    name = output.text(found.get("release_id"), release)
    if found.get("state") != "held":
        raise Conflict(f"{name} is not held.", f"`reef releases -s {scenario}` lists what is held.")
    if not yes:
        print(f"{name}: {output.printable(output.text(found.get('line'), output.text(found.get('change'), '')))}", file=sys.stderr)
        if not sys.stdin.isatty():
            raise BadRequest("Nobody is there to confirm.", f"Add --yes, or look first: reef show {name} -s {scenario}")
        typer.confirm(f"Dismiss {name}? This cannot be undone.", abort=True, err=True)
    answer = client.post(scenario_path(scenario, "releases", name, "dismiss"), {})
    if as_json:
        output.print_json(answer)
    else:
        print(f"{name} is dismissed. What serves in '{scenario}' does not change; its trace stays: reef show {name} -s {scenario}")

"""`reef train`: an instruction in words."""

from __future__ import annotations

from typing import Annotated

import typer

from daemon.errors import BadRequest
from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario


def train(
    words: Annotated[list[str] | None, typer.Argument(metavar="TEXT", help="What is to be learned, in your own words.")] = None,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """It is stored once this returns; recipes that read instructions take it with their next run.

    \b
    Examples:
      reef train "always run the tests before you say that something works"
    """
    said = " ".join(words or []).strip()
    if not said:
        raise BadRequest("What is to be learned?", 'Say it in words: reef train "always run the tests first"')
    client = Client()
    answer = client.post("/reef/train", {"text": said}, scenario)
    if as_json:
        output.print_json(answer)
        return
    print(f"Noted as {output.text(answer.get('agent_record_id'))}.")
    contract = client.get(scenario_path(scenario, "contract"))
    if output.part(contract, "takes").get("instructions") is not True:
        print(f"  The recipe of '{scenario}' ({output.text(contract.get('recipe'))}) reads no instructions; it is kept for one that does.")

"""`reef good`: feedback on a reply."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from reef_cli.feedback import send
from reef_cli.options import AsJSON, Scenario

Words: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="RECEIPT NOTE", help="Which reply, and a note in your own words.")]
Last: TypeAlias = Annotated[bool, typer.Option("--last", help="The scenario's latest reply.")]


def good(words: Words = None, last: Last = False, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """It is stored once this returns.

    \b
    Examples:
      reef good --last
      reef good rec_0ne6… "exactly the form I want"
    """
    send(1.0, words or [], last, scenario, None, as_json)

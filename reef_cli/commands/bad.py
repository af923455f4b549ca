"""`reef bad`: feedback on a reply, with a correction where there is one."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli.commands.good import Last, Words
from reef_cli.feedback import send
from reef_cli.options import AsJSON, Scenario


def bad(
    words: Words = None,
    last: Last = False,
    correction: Annotated[
        str, typer.Option("--correction", metavar="TEXT", help="The reply as it should have been; recipes learn it.")
    ] = "",
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """It is stored once this returns.

    \b
    Examples:
      reef bad --last "too long"
      reef bad --last --correction "fix(cache): release entries on eviction"
    """
    send(-1.0, words or [], last, scenario, correction or None, as_json)

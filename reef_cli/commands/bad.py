"""`reef bad`: feedback on a reply, with a correction where there is one, or on a session."""

from __future__ import annotations

from typing import Annotated

import typer

from reef_cli.feedback import Last, Session, Words, send
from reef_cli.options import AsJSON, Scenario


def bad(
    words: Words = None,
    last: Last = False,
    correction: Annotated[
        str, typer.Option("--correction", metavar="TEXT", help="The reply as it should have been; recipes learn it.")
    ] = "",
    session: Session = "",
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """It is stored once this returns.

    \b
    Examples:
      reef bad "too long"
      reef bad --last --correction "fix(cache): release entries on eviction"
      reef bad --session ses_0ne6… "never ran the tests"
    """
    send(-1.0, words or [], last, session, scenario, correction or None, as_json)

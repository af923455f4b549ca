"""`reef good`: feedback on a reply, or on a session."""

from __future__ import annotations

from reef_cli.feedback import Last, Session, Words, send
from reef_cli.options import AsJSON, Scenario


def good(words: Words = None, last: Last = False, session: Session = "", scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """It is stored once this returns.

    \b
    Examples:
      reef good
      reef good rec_0ne6… "exactly the form I want"
      reef good --session ses_0ne6…
    """
    send(1.0, words or [], last, session, scenario, None, as_json)

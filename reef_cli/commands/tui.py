"""`reef tui`, and `reef` alone in a terminal: the app."""

from __future__ import annotations

import sys

from daemon.errors import BadRequest
from reef_cli.options import Scenario


def tui(scenario: Scenario = "default") -> None:
    """Releases, sessions, runs and the engine, live. `?` shows the keys.

    \b
    Examples:
      reef
      reef tui -s pi
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise BadRequest("The app needs a terminal.", "In a script, use the verbs: reef status, reef releases, reef sessions.")
    from reef_cli.tui.app import ReefApp

    app = ReefApp(scenario=scenario)
    app.run()
    if app.bug is not None:
        raise app.bug

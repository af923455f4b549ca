"""`reef undo`."""

from __future__ import annotations

from reef_cli.head import move
from reef_cli.options import AsJSON, Scenario


def undo(scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """It can itself be undone.

    \b
    Examples:
      reef undo
    """
    move("undo", scenario, None, as_json)

"""`reef promote R`."""

from __future__ import annotations

from reef_cli.commands.show import Release
from reef_cli.head import move
from reef_cli.options import AsJSON, Scenario


def promote(release: Release, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """Look at it first: reef diff head RELEASE. Where something else serves by now than what it was evaluated against, its changes are
    put onto that and evaluated there, and the gate decides again. Where they do not fit, nothing changes and each place is shown.

    \b
    Examples:
      reef promote r15
    """
    move("promote", scenario, release, as_json)

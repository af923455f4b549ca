"""`reef promote R`."""

from __future__ import annotations

from reef_cli.commands.show import Release
from reef_cli.consent import AcceptExecutables, Consent, YesToFindings
from reef_cli.head import move
from reef_cli.options import AsJSON, Scenario


def promote(
    release: Release,
    yes: YesToFindings = False,
    accept_executables: AcceptExecutables = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """What the guard finds in it (new addresses, places of credentials, wider permissions, programs, what you wrote and it takes away) is
    shown with the files around it, and asked for. Where something else serves by now than what it was evaluated against, its changes are
    put onto that and evaluated there, and the gate decides again. Where they do not fit, nothing changes and each place is shown.

    \b
    Examples:
      reef promote r15
      reef promote r15 --yes --accept-executables
    """
    move("promote", scenario, release, as_json, Consent(yes, accept_executables))

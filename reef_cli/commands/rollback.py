"""`reef rollback R`."""

from __future__ import annotations

from reef_cli.commands.show import Release
from reef_cli.head import move
from reef_cli.options import AsJSON, Scenario


def rollback(release: Release, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """Its content is published as a new release, so the chain only grows. Nothing restarts, and no request is cut off.

    \b
    Examples:
      reef rollback r12
    """
    move("rollback", scenario, release, as_json)

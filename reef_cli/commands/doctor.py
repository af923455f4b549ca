"""`reef doctor`: check everything that a first user trips over."""

from __future__ import annotations

from reef_cli.daemon_process import become, command
from reef_cli.locations import home
from reef_cli.options import AsJSON


def doctor(as_json: AsJSON = False) -> None:
    """Python, compiler, packages, engine and model, memory for training, disk, port, tokens, agents. It needs no daemon.

    \b
    Examples:
      reef doctor
      reef doctor --json
    """
    become(command("doctor", home(), ["--json"] if as_json else []))

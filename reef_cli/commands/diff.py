"""`reef diff A B`: two releases side by side."""

from __future__ import annotations

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.commands.show import Release, outline
from reef_cli.options import AsJSON, Scenario

_SIGNS = {"+": output.GREEN, "-": output.RED}


def diff(before: Release, after: Release, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """`head` names the release that serves now.

    \b
    Examples:
      reef diff r12 r14
      reef diff head r15
    """
    client = Client()
    answer = client.get(scenario_path(scenario, "releases", before, "diff", after))
    if as_json:
        output.print_json(answer)
        return
    for line in outline(answer) or [f"{before} and {after} are the same."]:
        sign = line.split("│ ", 1)[-1][:1] if "│ " in line else ""
        print(output.paint(line, _SIGNS[sign]) if sign in _SIGNS else line)

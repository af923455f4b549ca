"""`reef show R`: one release, as a page to read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario
from reef_cli.release_page import page

if TYPE_CHECKING:
    from daemon.records import JSONObject

Release: TypeAlias = Annotated[
    str, typer.Argument(metavar="RELEASE", help="Such as r14, as `reef releases` lists it; head, or head~1 for the one before it.")
]


def show(
    release: Release,
    files: Annotated[bool, typer.Option("--files", help="Print the texts of its files too.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """What changed and why it serves or does not, its evaluation, the sessions it learned from, and what makes it reproducible.

    \b
    Examples:
      reef show r14
      reef show head --files
      reef show head~1 --json
    """
    answer = Client().get(scenario_path(scenario, "releases", release))
    if as_json:
        output.print_json(answer)
        return
    for line in page(answer, scenario):
        print(line)
    if files:
        _print_files(answer)


def _print_files(answer: JSONObject) -> None:
    for path, text in output.part(answer, "files").items():
        print()
        print(output.paint(output.printable(path), output.BOLD))
        for line in output.printable_lines(output.text(text, "")).splitlines():
            print(f"  {line}")

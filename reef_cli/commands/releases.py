"""`reef releases`: the chain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import change_line, output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Limit, Scenario

if TYPE_CHECKING:
    from daemon.records import JSONObject

_NARROWEST_LINE = 20
_HEADER = ("release", "made", "by", "what changed, and what it was worth", "")


def releases(
    limit: Limit = 20,
    before: Annotated[str, typer.Option("--before", metavar="RELEASE", help="Only older ones, for the next page.")] = "",
    log: Annotated[bool, typer.Option("--log", help="Show the operations instead: who did what, and the heads before and after.")] = False,
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """● serves now, ○ held: it waits for more evidence or for you, × rejected: it was worse, ↑ promoted: a later release has its content,
    ◆ pinned: it is kept whole.

    "61→68 of 80 (+9 −2, p .03)": the tasks' scores together, before and after; wins and losses; how likely luck alone would do as well.

    \b
    Examples:
      reef releases
      reef releases -s pi -n 5 --json
      reef releases --before r80
      reef releases --log
    """
    if log:
        from reef_cli.operation_log import show

        show(Client(), scenario, limit, before, as_json)
        return
    answer = Client().get(scenario_path(scenario, "releases"), {"limit": limit, "before": before})
    if as_json:
        output.print_json(answer)
        return
    items = output.rows(answer, "releases")
    rows = [
        (output.text(item.get("release_id")), output.age(item.get("recorded_at")), made_by(item), change_line.line(item), state(item))
        for item in items
    ]
    width = output.columns()
    if width is not None and rows:
        widths = [max(len(row[number]) for row in (*rows, _HEADER)) for number in (0, 1, 2, 4)]
        room = max(_NARROWEST_LINE, width - sum(widths) - 2 * len(widths))
        rows = [(*row[:3], change_line.line(item, room), row[4]) for row, item in zip(rows, items, strict=True)]
        header = (*_HEADER[:3], _HEADER[3][:room], "")
    else:
        header = _HEADER
    output.print_table(header, rows, f"The scenario '{scenario}' has no release{' before ' + before if before else ' yet'}.")
    if answer.get("next"):
        older = f"reef releases{'' if scenario == 'default' else f' -s {scenario}'} --before {output.text(answer.get('next'))}"
        print(output.paint(f"Older ones: {older}", output.DIM))


def made_by(item: JSONObject) -> str:
    """The recipe that proposed it, or what a person did."""
    operation = output.text(item.get("operation"), "")
    return output.text(item.get("recipe"), operation) if operation == "training" else operation


def state(item: JSONObject) -> str:
    """How a release stands, by a sign and a word each."""
    found = "held" if item.get("pending") else output.text(item.get("state"), "")
    words = {"rejected": "× rejected", "promoted": f"↑ promoted as {output.text(item.get('promoted_as'), 'a later one')}"}
    shown = [words[found]] if found in words else []
    if found == "held":
        shown.append("○ held, aged" if item.get("aged") else "○ held")
    if item.get("current"):
        shown.append("● serving")
    if item.get("pinned"):
        shown.append("◆ pinned")
    if item.get("weights_collected"):
        shown.append("weights collected")
    return " ".join(shown)

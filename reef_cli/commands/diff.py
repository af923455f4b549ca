"""`reef diff A B`: two releases side by side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.commands.show import Release
from reef_cli.options import AsJSON, Scenario

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_SIGNS = {"+": output.GREEN, "-": output.RED}
_EVALUATION = ("held_out_before", "held_out_after", "tasks", "wins", "losses", "ties", "p", "probe_rise")


def diff(before: Release, after: Release, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """`head` names the release that serves now.

    \b
    Examples:
      reef diff r12 r14
      reef diff head r15
    """
    answer = Client().get(scenario_path(scenario, "releases", before, "diff", after))
    if as_json:
        output.print_json(answer)
        return
    names = output.text(answer.get("before"), before), output.text(answer.get("after"), after)
    if answer.get("same_content"):
        print(f"{names[0]} and {names[1]} have the same content.")
    for change in output.rows(answer, "files"):
        print(output.paint(output.printable(f"{output.text(change.get('status'))} {output.text(change.get('path'))}"), output.BOLD))
        for line in output.printable_lines(output.text(change.get("unified"), "")).splitlines()[2:]:
            print("  " + (output.paint(line, _SIGNS[line[0]]) if line[:1] in _SIGNS else line))
    rows = [*_lora(answer), *_settings(answer), *_evaluation(answer)]
    if rows:
        output.print_table(("", *names), rows, "")


def _lora(answer: JSONObject) -> list[tuple[str, ...]]:
    sides = output.part(answer, "lora_before"), output.part(answer, "lora_after")
    if sides[0].get("id") == sides[1].get("id"):
        return []
    rows: list[tuple[str, ...]] = [("LoRA", *(output.text(side.get("id"), "none")[:12] for side in sides))]
    rows.append(("LoRA size", *(output.size(side.get("size_bytes")) for side in sides)))
    rows += [(f"LoRA {name}", *(_value(side.get(name)) for side in sides)) for name in ("rank", "alpha", "modules")]
    norms = output.part(sides[0], "norms"), output.part(sides[1], "norms")
    for layer in sorted({*norms[0], *norms[1]}, key=lambda name: (len(name), name)):
        rows.append((f"LoRA norm, layer {layer}", *(_value(side.get(layer)) for side in norms)))
    return rows


def _settings(answer: JSONObject) -> list[tuple[str, ...]]:
    return [
        (output.text(item.get("name")), _value(item.get("before")), _value(item.get("after"))) for item in output.rows(answer, "settings")
    ]


def _evaluation(answer: JSONObject) -> list[tuple[str, ...]]:
    sides = output.part(answer, "evaluation_before"), output.part(answer, "evaluation_after")
    if not any(sides):
        return []
    return [(name.replace("_", " "), *(_value(side.get(name)) for side in sides)) for name in _EVALUATION]


def _value(value: JSON) -> str:
    if isinstance(value, list):
        return ", ".join(output.text(item) for item in value)
    return output.shorten(output.text(value), 60)

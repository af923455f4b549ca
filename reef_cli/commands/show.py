"""`reef show R`: one release."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

Release: TypeAlias = Annotated[str, typer.Argument(metavar="RELEASE", help="Such as r14, as `reef releases` lists it.")]


def show(release: Release, scenario: Scenario = "default", as_json: AsJSON = False) -> None:
    """The artifacts, the base model and the settings that it was made with, the records it learned from, its evaluation.

    \b
    Examples:
      reef show r14
    """
    answer = Client().get(scenario_path(scenario, "releases", release))
    if as_json:
        output.print_json(answer)
        return
    brief, played = _brief(answer)
    for line in outline(brief):
        print(line)
    if played:
        print(f"The replies to each task: reef show {release} -s {scenario} --json")


def _brief(answer: JSONObject) -> tuple[JSONObject, bool]:
    """The release with each played task as its two scores, and whether there are any."""
    evaluation = output.part(answer, "tasks")
    played = output.part(evaluation, "tasks")
    if not any(played.values()):
        return answer, False
    scores: JSONObject = {}
    for split in played:
        sides = [(task, output.part(task, "before"), output.part(task, "after")) for task in output.rows(played, split)]
        scores[split] = {output.text(task.get("task")): f"{_score(before)} → {_score(after)}" for task, before, after in sides}
    return {**answer, "tasks": {**evaluation, "tasks": scores}}, True


def _score(side: JSONObject) -> str:
    return output.text(side.get("score"))


def outline(value: JSON, depth: int = 0) -> list[str]:
    """Any answer as indented lines: what is empty is left out, long lists are counted."""
    indent = "  " * depth
    lines: list[str] = []
    if isinstance(value, dict):
        for name, own in value.items():
            title = name.replace("_", " ")
            if own in (None, "", [], {}):
                continue
            if isinstance(own, str) and "\n" in own:
                lines.append(f"{indent}{title}:")
                lines += [f"{indent}  │ {line}" for line in output.printable_lines(own).splitlines()]
            elif isinstance(own, dict) or (isinstance(own, list) and any(isinstance(item, dict | list) for item in own)):
                lines += [f"{indent}{title}:", *outline(own, depth + 1)]
            elif isinstance(own, list):
                shown = ", ".join(output.printable(output.text(item)) for item in own[:8])
                lines.append(f"{indent}{title}: {shown}{f' … {len(own)} in all' if len(own) > 8 else ''}")
            elif name.endswith("_at") and output.to_seconds(own) is not None:
                lines.append(f"{indent}{title}: {output.age(own)}")
            elif name.endswith("_bytes"):
                lines.append(f"{indent}{title.removesuffix(' bytes')}: {output.size(own)}")
            else:
                lines.append(f"{indent}{title}: {output.printable(output.text(own))}")
    elif isinstance(value, list):
        for item in value:
            block = outline(item, depth + 1)
            if block:
                lines += [f"{indent}- {block[0].strip()}", *block[1:]]
    else:
        lines.append(f"{indent}{output.printable(output.text(value))}")
    return lines

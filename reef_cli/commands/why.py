"""`reef why "text"`: where a line comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import change_line, output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario
from reef_cli.release_page import said

if TYPE_CHECKING:
    from daemon.records import JSONObject

_SIGNS = {"brought": "+", "removed": "−", "brought back": "+"}
_SESSIONS = 3
_TITLE = 60


def why(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="Words of a rule or of any other line, or lora.")],
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """Rules, skills, prompts, settings and demonstrations are searched, whatever their case and white space.

    A line that no release has is answered with the nearest ones, and with exit code 1 where none is near. `reef why lora` tells of
    the weights.

    \b
    Examples:
      reef why "run the tests before each commit"
      reef why lora -s pi
    """
    answer = Client().get(scenario_path(scenario, "why"), {"text": text})
    events = output.rows(answer, "releases")
    if as_json:
        output.print_json(answer)
    elif events:
        _print_story(answer, events, scenario)
    else:
        _print_nothing(answer, text, scenario)
    if not events:
        raise typer.Exit(1)


def _print_story(answer: JSONObject, events: list[JSONObject], scenario: str) -> None:
    if answer.get("match") == "near":
        print("No release holds these words. The nearest line is:")
        print(f"  {_line(output.rows(answer, 'nearest')[0])}")
    for event in events:
        _print_event(event)
    now = "What serves now holds it." if answer.get("serving") else "What serves now does not hold it."
    print(f"{now} The whole story: reef show {output.text(events[0].get('release_id'))}{_more(scenario)}")


def _print_event(event: JSONObject) -> None:
    what = output.text(event.get("event"))
    sign, state = _SIGNS.get(what, " "), output.text(event.get("state"))
    by = output.text(event.get("recipe") or event.get("operation"))
    facts = [f"{what} by {by}" if state == "published" else f"{what} by {by}, {state}", output.age(event.get("recorded_at"))]
    name = output.paint(output.text(event.get("release_id")), output.BOLD)
    print(f"{sign} {name} {' · '.join(facts)}: {change_line.line({'line': event.get('change')})}")
    print(f"    {_line(event)}")
    if event.get("reason") or event.get("author"):
        print(f"    {output.printable(said(event))}")
    sessions = output.rows(event, "sessions")
    for one in sessions[:_SESSIONS]:
        title = output.shorten(output.printable(output.text(one.get("title"), "")), _TITLE)
        print(f"    from session {output.printable(output.text(one.get('id')))}  {title}".rstrip())
    if len(sessions) > _SESSIONS:
        print(output.paint(f"    and {len(sessions) - _SESSIONS} more (reef show {output.text(event.get('release_id'))})", output.DIM))
    if event.get("run_id"):
        print(output.paint(f"    in run {output.text(event.get('run_id'))}", output.DIM))


def _line(found: JSONObject) -> str:
    number = f":{found['number']}" if isinstance(found.get("number"), int) else ""
    return output.printable(f"{output.text(found.get('path'), '')}{number}  {output.text(found.get('line'), '')}".strip())


def _print_nothing(answer: JSONObject, text: str, scenario: str) -> None:
    if answer.get("match") == "lora" or text.strip().casefold() == "lora":
        print(f"No release of '{scenario}' has had a LoRA.")
        print(f"  Learn one: reef evolve --recipe sft{_more(scenario)}")
        return
    print(f"No release of '{scenario}' holds these words.")
    nearest = output.rows(answer, "nearest")
    if nearest:
        print("Nearest:")
    for one in nearest:
        print(f"  {output.text(one.get('release_id')):4} {_line(one)}")
    print(f"  What serves holds: reef show head --files{_more(scenario)}. What each release changed: reef releases{_more(scenario)}")


def _more(scenario: str) -> str:
    return "" if scenario == "default" else f" -s {scenario}"

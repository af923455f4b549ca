"""`reef session ID`: one conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reef_cli import output
from reef_cli.client import Client, scenario_path
from reef_cli.options import AsJSON, Scenario

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject


def session(
    id: Annotated[str, typer.Argument(metavar="ID", help="As `reef sessions` lists it.")],
    scenario: Scenario = "default",
    as_json: AsJSON = False,
) -> None:
    """Each turn carries its receipt, the release that answered, and the reports on it.

    \b
    Examples:
      reef session ses_0ne6…
    """
    answer = Client().get(scenario_path(scenario, "sessions", id))
    if as_json:
        output.print_json(answer)
        return
    shown_messages = 0
    for turn in output.rows(answer, "turns"):
        messages = output.rows(turn, "messages")
        for message in messages[shown_messages:] if len(messages) > shown_messages else messages[-1:]:
            _print_message(message)
        reply = output.part(turn, "reply")
        _print_message({"role": "assistant", **reply})
        shown_messages = len(messages) + 1
        facts = [output.text(turn.get(name), "") for name in ("receipt", "release_id", "status", "finish_reason", "kind")]
        print(output.paint(f"  └ {' · '.join(fact for fact in facts if fact)} · {output.age(turn.get('created_at'))}", output.DIM))
        for said in _said(turn):
            print(output.paint(f"  └ {said}", output.DIM))
        for report in output.rows(turn, "reports"):
            print(f"  └ report: {_report(report)}")


def _said(turn: JSONObject) -> list[str]:
    """What the engine has to say of a reply, where that is something."""
    miss, note = output.text(turn.get("cache_miss"), ""), output.text(turn.get("note"), "")
    return [output.printable(text) for text in (f"read again from the start: {miss}" if miss else "", note) if text]


def _print_message(message: JSONObject) -> None:
    print(output.paint(output.text(message.get("role")), output.BOLD))
    body = output.printable_lines(_content(message.get("content")))
    for line in body.splitlines() or [""]:
        print(f"  {line}")
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        if isinstance(call, dict):
            function = output.part(call, "function")
            print(
                f"  → {output.printable(output.text(function.get('name')))}({output.printable(output.text(function.get('arguments'), ''))})"
            )


def _report(report: JSONObject) -> str:
    feedback = report.get("feedback")
    parts = [] if report.get("score") is None else [f"score {output.text(report.get('score'))}"]
    if isinstance(feedback, dict):
        parts += [f"{name}: {output.text(value)}" for name, value in feedback.items()]
    elif feedback:
        parts.append(output.text(feedback))
    return output.printable(" · ".join(parts))


def _content(content: JSON) -> str:
    if isinstance(content, list):
        parts = [item for item in content if isinstance(item, dict)]
        return "\n".join(output.text(item.get("text"), f"[{output.text(item.get('type'))}]") for item in parts)
    return output.text(content, "")

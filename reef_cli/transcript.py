"""A recorded conversation for a person to read: what each turn adds, long texts folded, what is known of it below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_LINES = {"system": 3, "developer": 3, "tool": 8}  # shown of a longer text; system texts are the agent's, not the user's
_OTHER_LINES = 24
_LINE_CHARACTERS = 400
_STEPS = {
    "branch": "── branch: goes on from {follows} with other words",
    "compaction": "── compaction: goes on from {follows} with a shorter history",
    "retry": "── the request of {follows} again",
    "choice": "── one more reply to the request of {follows}",
}


def marks(turn: JSONObject, line: int) -> list[str]:
    """What to print before a turn that does not simply go on from the one above; `line` is that one's."""
    follows = output.printable(output.text(turn.get("follows"), "an earlier turn"))
    step = output.text(turn.get("step"), "")
    if step in _STEPS:
        return [_STEPS[step].format(follows=follows)]
    if turn.get("line") in (None, line):
        return []
    return ["── a new beginning" if step == "begin" else f"── goes on from {follows}"]


def aside(turn: JSONObject) -> str:
    """One line for what is no turn."""
    said = output.shorten(output.printable(_content(output.part(turn, "reply").get("content"))), 80)
    return f"· aside {output.printable(output.text(turn.get('receipt')))}: {said or 'no text'}"


def print_turn(turn: JSONObject, *, full: bool) -> None:
    for message in output.rows(turn, "added"):
        _print_message(message, full=full)
    _print_message({**output.part(turn, "reply"), "role": "assistant"}, full=full)
    facts = [output.text(turn.get(name), "") for name in ("receipt", "release_id", "finish_reason")]
    facts += [output.text(turn.get(name), "") for name, usual in (("status", "ok"), ("kind", "turn")) if turn.get(name) != usual]
    facts = [output.printable(fact) for fact in dict.fromkeys(facts) if fact]  # an aborted reply would say so twice
    below = [" · ".join(facts) + f" · {output.age(turn.get('created_at'))}", *_said(turn)]
    signals = turn.get("signals")
    if isinstance(signals, list) and signals:
        below.append("signals: " + ", ".join(output.text(signal).replace("_", " ") for signal in signals))
    for text in below:
        print(output.paint(f"  └ {text}", output.DIM))
    for report in output.rows(turn, "reports"):
        print(f"  └ report: {_report(report)}")


def _said(turn: JSONObject) -> list[str]:
    """What the engine has to say of a reply, where that is something."""
    miss, note, error = (output.text(turn.get(name), "") for name in ("cache_miss", "note", "error"))
    return [output.printable(text) for text in (f"read again from the start: {miss}" if miss else "", note, error) if text]


def _print_message(message: JSONObject, *, full: bool) -> None:
    role = output.text(message.get("role"))
    print(output.paint(output.printable(role), output.BOLD))
    thoughts = output.text(message.get("reasoning_content"), "")
    if thoughts:
        for line in _folded(thoughts, _OTHER_LINES if full else 3, full=full):
            print(output.paint(f"  {line}", output.DIM))
    calls = [call for call in _list(message.get("tool_calls")) if isinstance(call, dict)]
    text = _content(message.get("content"))
    for line in _folded(text, _LINES.get(role, _OTHER_LINES), full=full) or ([] if calls else [""]):
        print(f"  {line}")
    for call in calls:
        function = output.part(call, "function")
        arguments = output.printable(output.text(function.get("arguments"), ""))
        shown = arguments if full else output.shorten(arguments, _LINE_CHARACTERS)
        print(f"  → {output.printable(output.text(function.get('name')))}({shown})")


def _folded(text: str, limit: int, *, full: bool) -> list[str]:
    """The lines to show of a text."""
    lines = output.printable_lines(text).splitlines()
    if full:
        return lines
    shown = [line if len(line) <= _LINE_CHARACTERS else line[: _LINE_CHARACTERS - 1] + "…" for line in lines[:limit]]
    if len(lines) > limit + 1:  # a fold of one line would take its place
        left = sum(len(line) + 1 for line in lines[limit:])
        return [*shown, output.paint(f"… {len(lines) - limit} more lines, {left:,} characters (--full)", output.DIM)]
    return shown + [line[:_LINE_CHARACTERS] for line in lines[limit:]]


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


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []

"""A recorded session as rows: what each turn adds, thoughts and long texts folded, what is known of it below."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from reef_cli import output
from reef_cli.tui.sessions.blocks import Block, Rule
from reef_cli.tui.widgets.feed import Row
from reef_cli.tui.wrapping import clean, cut

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_FOLDS = {"system": 1, "developer": 1, "tool": 6}
_GOOD = frozenset({"good", "tests_passed", "tests_mended", "succeeded"})
_BAD = frozenset({"bad", "objected", "restated", "tool_failed", "tests_failed", "aborted", "corrected"})
_STEPS = {
    "branch": "branch: goes on from {} with other words",
    "compaction": "compaction: goes on from {} with a shorter history",
    "retry": "the request of {} again",
    "choice": "one more reply to the request of {}",
}
_USUAL = ("stop", "tool_calls", "ok")
_NAMES = {"developer": "system", "tool": "result", "function": "result"}


@dataclass(slots=True)
class Remembered:
    """One turn's rows, and what they were made from."""

    turn: JSONObject
    place: int
    mark: str
    when: str
    tools: dict[str, str]  # the calls that it makes: id → name
    rows: list[Row]

    def fits(self, turn: JSONObject, place: int, mark: str, opened: Collection[str]) -> bool:
        same = self.turn is turn and self.place == place and self.mark == mark and self.when == output.age(turn.get("created_at"))
        return same and all(row.opened == (row.key in opened) for row in self.rows if isinstance(row, Block) and row.selectable)


def rows_of(
    turns: Sequence[JSONObject], first: int = 0, opened: Collection[str] = (), known: dict[str, Remembered] | None = None
) -> list[Row]:
    """The rows of some of a session's turns, which stand beside each other in it.

    Args:
        turns: as the daemon shows them.
        first: the place of the first of them in the whole session.
        opened: the keys of those blocks that are not folded.
        known: by receipt, what was made before; kept up to date.
    """
    known = known if known is not None else {}
    found: list[Row] = []
    tools: dict[str, str] = {}
    numbers = {output.text(turn.get("receipt")): _number(turn.get("number")) for turn in turns}
    line: int | None = None
    for place, turn in enumerate(turns, first):
        receipt = output.text(turn.get("receipt"))
        if turn.get("kind") == "aside":
            found.append(_aside(turn, place, receipt, opened))
            continue
        before = line if line is not None else (0 if first == 0 else _number(turn.get("line")))
        line = _number(turn.get("line"))
        mark = _mark(turn, before, numbers)
        made = known.get(receipt)
        if made is None or not made.fits(turn, place, mark, opened):
            calls = {output.text(call.get("id")): called(call)[0] for call in output.rows(output.part(turn, "reply"), "tool_calls")}
            rows = _turn(turn, place, receipt, mark, tools, opened)
            made = known[receipt] = Remembered(turn, place, mark, output.age(turn.get("created_at")), calls, rows)
        tools |= made.tools
        found += made.rows
    return found


def judgement(turn: JSONObject) -> str:
    """What the latest report with a score says of it: `✓ good`, `✗ bad`; empty without one."""
    for report in reversed(output.rows(turn, "reports")):
        score = report.get("score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            return "✓ good" if score > 0 else "✗ bad" if score < 0 else "· neutral"
    return ""


def _mark(turn: JSONObject, line: int, numbers: Mapping[str, int]) -> str:
    """How a turn goes on, where it does not simply go on from the one above; `line` is that one's."""
    receipt = output.text(turn.get("follows"), "")
    follows = str(numbers.get(receipt) or receipt or "an earlier turn")
    step = output.text(turn.get("step"), "")
    if step in _STEPS:
        return clean(_STEPS[step].format(follows))
    if _number(turn.get("line")) == line:
        return ""
    return "a new beginning" if step == "begin" else clean(f"goes on from {follows}")


def _turn(turn: JSONObject, place: int, receipt: str, mark: str, tools: dict[str, str], opened: Collection[str]) -> list[Row]:
    when, release = output.age(turn.get("created_at")), output.text(turn.get("release_id"), "")
    right = " · ".join(part for part in (output.printable(release), when) if part)
    found: list[Row] = [Rule(f"{receipt}/turn", place, str(_number(turn.get("number")) or "·"), mark, right, judgement(turn))]
    for number, message in enumerate(output.rows(turn, "added")):
        found += _message(message, place, f"{receipt}/{number}", tools, opened)
    reply = {**output.part(turn, "reply"), "role": "reply"}
    found += _message(reply, place, f"{receipt}/reply", tools, opened)
    found.append(Block(f"{receipt}/facts", place, "", _facts(turn), role="dim", selectable=False))
    for name in ("cache_miss", "note", "error"):
        if said := output.text(turn.get(name), ""):
            label = "read again" if name == "cache_miss" else name
            found.append(
                Block(f"{receipt}/{name}", place, label[:9], clean(said), role="warn", fold=3, opened=f"{receipt}/{name}" in opened)
            )
    signals = turn.get("signals")
    if isinstance(signals, list) and signals:
        found.append(_signals([output.text(signal) for signal in signals], place, receipt))
    found += [_report(report, place, f"{receipt}/report{number}", opened) for number, report in enumerate(output.rows(turn, "reports"))]
    return found


def _message(message: JSONObject, place: int, key: str, tools: dict[str, str], opened: Collection[str]) -> list[Row]:
    role = output.printable(output.text(message.get("role")))
    name, fold = _NAMES.get(role, role)[:9], _FOLDS.get(role, 24)
    found: list[Row] = []
    if thoughts := output.text(message.get("reasoning_content"), ""):
        found.append(_block(f"{key}/thoughts", place, "thinking", thoughts.strip(), opened, fold=1, role="dim"))
    calls = [call for call in _list(message.get("tool_calls")) if isinstance(call, dict)]
    text = content(message.get("content")).strip("\n")
    lead = cut(tools.get(output.text(message.get("tool_call_id")), ""), 30) if role in ("tool", "function") else ""
    if text or not calls:
        name_role = {"user": "accent", "reply": "strong"}.get(role, "dim")
        found.append(
            _block(key, place, name, text or "(nothing)", opened, fold=fold, name_role=name_role, lead=lead, role="" if text else "dim")
        )
    for number, call in enumerate(calls):
        tool, arguments = called(call)
        is_open = f"{key}/call{number}" in opened
        shown = arguments if is_open else " · ".join(" ".join(line.split()) for line in arguments.split("\n") if line.strip())
        found.append(_block(f"{key}/call{number}", place, "call", shown, opened, fold=3, lead=cut(tool, 40)))
    return found


def _block(
    key: str,
    place: int,
    name: str,
    text: str,
    opened: Collection[str],
    *,
    fold: int,
    role: str = "",
    name_role: str = "dim",
    lead: str = "",
) -> Block:
    return Block(key, place, name, clean(text), fold, key in opened, role, name_role, lead)


def called(call: JSONObject) -> tuple[str, str]:
    """The tool's name, and its arguments as lines that a person reads: `path: calc.py`."""
    function = output.part(call, "function")
    name, arguments = output.text(function.get("name"), "?"), function.get("arguments")
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return name, str(arguments)
    if not isinstance(arguments, dict):
        return name, output.text(arguments, "")
    if len(arguments) == 1:
        return name, output.text(next(iter(arguments.values())), "")
    return name, "\n".join(f"{key}: {output.text(value, '')}" for key, value in arguments.items())


def content(value: JSON) -> str:
    """The text of a message; parts that are none by their type."""
    if isinstance(value, list):
        parts = [item for item in value if isinstance(item, dict)]
        return "\n".join(output.text(item.get("text"), f"[{output.text(item.get('type'))}]") for item in parts)
    return output.text(value, "")


def _facts(turn: JSONObject) -> str:
    usage = output.part(turn, "usage")
    facts = [f"{output.count(usage.get('prompt_tokens'))} + {output.count(usage.get('completion_tokens'))} tokens"]
    if cached := _number(usage.get("cached_tokens")):
        facts[0] += f", {cached:,} cached"
    total = turn.get("total_ms")
    if isinstance(total, int | float) and total > 0:
        facts.append(f"{total / 1000:.1f} s")
    facts += [output.text(turn.get(name), "") for name in ("finish_reason", "status") if turn.get(name) not in _USUAL]
    if retries := _number(turn.get("retries")):
        facts.append(f"asked {retries + 1} times")
    return clean(" · ".join(dict.fromkeys(fact for fact in facts if fact)))


def _signals(signals: Sequence[str], place: int, receipt: str) -> Block:
    marked = [f"{'✓ ' if signal in _GOOD else '✗ ' if signal in _BAD else ''}{signal.replace('_', ' ')}" for signal in signals]
    is_bad, is_good = any(signal in _BAD for signal in signals), any(signal in _GOOD for signal in signals)
    role = "bad" if is_bad and not is_good else "good" if is_good and not is_bad else ""
    return Block(f"{receipt}/signals", place, "signals", clean(" · ".join(marked)), role=role, selectable=False)


def _report(report: JSONObject, place: int, key: str, opened: Collection[str]) -> Block:
    feedback, word = report.get("feedback"), judgement({"reports": [report]})
    parts = [word] if word else []
    if isinstance(feedback, dict):
        parts += [f"{name}: {output.text(value)}" for name, value in feedback.items()]
    elif feedback:
        parts.append(output.text(feedback))
    role = "good" if word.startswith("✓") else "bad" if word.startswith("✗") else ""
    return _block(key, place, "report", " · ".join(parts), opened, fold=6, role=role)


def _aside(turn: JSONObject, place: int, receipt: str, opened: Collection[str]) -> Block:
    said = content(output.part(turn, "reply").get("content")) or "(nothing)"
    return _block(f"{receipt}/aside", place, "aside", said, opened, fold=1, role="dim")


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _number(value: JSON) -> int:
    return value if isinstance(value, int) else 0

"""Two releases side by side, as lines of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reef_cli import bars, judgement, output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_SIGNS = {"removed": "-", "added": "+", "same": " "}
_COLOURS = {"removed": output.RED, "added": output.GREEN}
_BRACKETS = {"removed": ("[-", "-]"), "added": ("{+", "+}")}
_REVERSED = "7"
_OUTCOMES = {"win": "+", "loss": "−", "tie": "="}
_BAR, _WIDEST, _REPLY_LINES = 20, 160, 12


def files(answer: JSONObject) -> list[str]:
    """Each file that changed, with the words that did."""
    found: list[str] = []
    for change in output.rows(answer, "files"):
        status = output.text(change.get("status"))
        found += ["", output.paint(output.printable(f"{status} {output.text(change.get('path'))}"), output.BOLD)]
        for hunk in output.rows(change, "hunks"):
            if status == "changed":
                found.append(output.paint(f"@@ line {output.text(hunk.get('after_line'))}", output.DIM))
            found += [_line(line) for line in output.rows(hunk, "lines")]
    return found


def _line(line: JSONObject) -> str:
    kind = output.text(line.get("kind"))
    segments = line.get("segments")
    pieces = (
        [(output.printable(str(one[0])), bool(one[1])) for one in segments if isinstance(one, list) and len(one) == 2]
        if isinstance(segments, list)
        else []
    )
    sign, colour = _SIGNS.get(kind, " "), _COLOURS.get(kind)
    if colour is None:
        return f"  {sign} {''.join(text for text, _ in pieces)}"
    if all(changed for _, changed in pieces):  # the whole line: its sign says so
        return output.paint(f"  {sign} {''.join(text for text, _ in pieces)}", colour)
    if output.coloured():
        return output.paint(f"  {sign} ", colour) + "".join(
            output.paint(text, f"{colour};{_REVERSED}" if changed else colour) for text, changed in pieces
        )
    opened, closed = _BRACKETS[kind]
    return f"  {sign} " + "".join(f"{opened}{text}{closed}" if changed else text for text, changed in pieces)


def lora(answer: JSONObject, names: tuple[str, str]) -> list[str]:
    """Rank, modules and size, and how much each layer adds to the weights; nothing where both have the same one."""
    sides = output.part(answer, "lora_before"), output.part(answer, "lora_after")
    if sides[0].get("id") == sides[1].get("id"):
        return []
    rows: list[tuple[str, ...]] = [("", *names)]
    rows.append(("id", *(output.text(side.get("id"), "none")[:12] for side in sides)))
    rows += [(name, *(_value(side.get(name)) if side else "" for side in sides)) for name in ("rank", "alpha", "modules")]
    rows.append(("size", *(output.size(side.get("size_bytes")) if side else "" for side in sides)))
    shown = layers(answer)
    most = max((norm for _, *norms in shown for norm in norms if norm is not None), default=0.0)
    for layer, *norms in shown:
        rows.append((layer, *(f"{bars.bar(norm, most, _BAR):{_BAR}} {norm:.3g}" if norm is not None else "" for norm in norms)))
    return [*_table(rows), *(["  The bars: the norm of what the LoRA adds to each layer's weights."] if shown else [])]


def layers(answer: JSONObject) -> list[tuple[str, float | None, float | None]]:
    """The norm of what each side's LoRA adds to each layer's weights; None where a side has no such layer."""
    before, after = (output.part(output.part(answer, side), "norms") for side in ("lora_before", "lora_after"))
    names = sorted({*before, *after}, key=lambda name: (len(name), name))
    sides = [[judgement.number(side[name]) if name in side else None for name in names] for side in (before, after)]
    return [(f"layer {name}" if name.isdigit() else name, old, new) for name, old, new in zip(names, *sides, strict=True)]


def settings(answer: JSONObject, names: tuple[str, str]) -> list[str]:
    """The settings that differ."""
    rows = [(output.text(one.get("name")), _value(one.get("before")), _value(one.get("after"))) for one in output.rows(answer, "settings")]
    return _table([("", *names), *rows]) if rows else []


def evaluation(answer: JSONObject, names: tuple[str, str]) -> list[str]:
    """What was played, in sums."""
    tasks = output.part(answer, "tasks")
    found: list[str] = []
    for split in judgement.splits({"tasks": {name: _as_played(tasks, name) for name in tasks}}):
        marks = bars.outcomes(split.wins, split.losses, split.ties, 2 * _BAR)
        tokens = f" · tokens {judgement.percent(split.tokens)}" if split.tokens is not None and round(split.tokens, 2) else ""
        found += [f"  {split.name:9} {split.points}: {split.tally}{tokens}", f"  {'':9} {marks}"]
    if found and answer.get("tasks_compared") == "apart":
        found.insert(0, f"  {names[0]} and {names[1]} were never played against each other: this sets their own evaluations side by side.")
    return found


def _as_played(tasks: JSONObject, split: str) -> JSON:
    """The pairs of a comparison in the form of an evaluation's."""
    found: list[JSON] = []
    for one in output.rows(tasks, split):
        sides: JSONObject = {side: {"score": one.get(side), "completion_tokens": one.get(f"tokens_{side}")} for side in ("before", "after")}
        found.append(sides)
    return found


def task_lines(answer: JSONObject, *, whole: bool) -> list[str]:
    """Wins and losses, a line each; with `whole` every task and both replies."""
    tasks = output.part(answer, "tasks")
    width = min(output.columns() or _WIDEST, _WIDEST)
    found: list[str] = []
    for split in tasks:
        pairs = output.rows(tasks, split)
        shown = [pair for pair in pairs if whole or pair.get("outcome") != "tie"]
        if shown:
            found += ["", f"  {output.paint(split, output.BOLD)}"]
        for pair in shown:
            found.append(_task(pair, width))
            found += _side_by_side(pair, width) if whole else []
        if len(shown) < len(pairs):
            found.append(
                output.paint(
                    f"  = {len(pairs) - len(shown)} {split} {'tie' if len(pairs) - len(shown) == 1 else 'ties'} (--tasks shows them)",
                    output.DIM,
                )
            )
    return found


def _task(pair: JSONObject, width: int) -> str:
    outcome = output.text(pair.get("outcome"))
    scores = f"{judgement.score(pair.get('before'))} → {judgement.score(pair.get('after'))}"
    line = f"  {_OUTCOMES.get(outcome, ' ')} {scores:11} {output.text(pair.get('task'))}  {output.text(pair.get('prompt'), '')}"
    line = output.printable(line)
    line = line if len(line) <= width else line[: width - 1] + "…"
    return output.paint(line, {"win": output.GREEN, "loss": output.RED}[outcome]) if outcome in ("win", "loss") else line


def _side_by_side(pair: JSONObject, width: int) -> list[str]:
    room = max(20, (width - 9) // 2)
    columns = [_reply(pair, side, room) for side in ("before", "after")]
    height = max(len(column) for column in columns)
    left, right = ([*column, *[""] * (height - len(column))] for column in columns)
    return [f"      {one:{room}} │ {other}".rstrip() for one, other in zip(left, right, strict=True)]


def _reply(pair: JSONObject, side: str, room: int) -> list[str]:
    text = output.printable_lines(output.text(pair.get(f"reply_{side}"), ""))
    lines = [part for line in text.expandtabs(2).splitlines() for part in textwrap.wrap(line, room) or [""]]
    cut = [*lines[: _REPLY_LINES - 1], f"… {len(lines) - _REPLY_LINES + 1} more lines (--json)"] if len(lines) > _REPLY_LINES else lines
    detail = output.shorten(output.printable(output.text(pair.get(f"detail_{side}"), "")), room)
    return [*(cut or ["(no reply)"]), *([detail] if detail else [])]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns of equal width, set in a little."""
    cleaned = [[output.printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cleaned, strict=True)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cleaned]


def _value(value: JSON) -> str:
    if isinstance(value, list):
        return ", ".join(output.text(item) for item in value)
    return output.shorten(output.text(value), 60)

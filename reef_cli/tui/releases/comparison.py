"""Two releases side by side, as text: files word by word, LoRA by layer, settings, tasks.

Recorded text is shown as it is: it is cleaned of control characters, and never read as markup.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import TYPE_CHECKING, Final

from textual.content import Content

from reef_cli import output
from reef_cli.tui.releases.prose import STYLES, line, outcomes, plural, title
from reef_cli.tui.widgets.bars import share_bar
from reef_cli.tui.wrapping import clean, cut, wrapped

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_LINES = 1200  # of all files together; the rest is told by `reef diff`
_NUMBER = 5
_LAYERS = 128
_REPLY_LINES = 12
_TASK_CELLS = 96  # beyond, the scores stand too far from their task
_SIGNS: Final = {"added": "+", "removed": "−"}
_STATUS: Final = {"added": "new", "removed": "gone", "changed": "changed"}
_OUTCOMES: Final = {"win": ("+", "good"), "loss": ("−", "bad"), "tie": ("=", "muted")}
_SPLITS: Final = ("held-out", "held-in", "sealed")


class Shown(Enum):
    """Which tasks are listed."""

    ALL = "all"
    LOSSES = "loss"
    WINS = "win"

    @property
    def next(self) -> Shown:
        order = list(Shown)
        return order[(order.index(self) + 1) % len(order)]


def head(diff: JSONObject) -> list[Content]:
    names = [output.printable(output.text(diff.get(side))) for side in ("before", "after")]
    words = output.printable(output.text(diff.get("line"), ""))
    if diff.get("same_content") is True:
        words = "The same content: nothing that serves differs."
    return [line((names[0], "strong"), ("  →  ", "muted"), (names[1], "strong")), line((words, "plain"))]


def files(diff: JSONObject, width: int) -> list[Content]:
    changed = output.rows(diff, "files")
    if not changed:
        return []
    lines, room = title("Files", plural(len(changed), "file")), _LINES
    for index, change in enumerate(changed):
        lines += [Content()] if index else []
        status = _STATUS.get(output.text(change.get("status")), "changed")
        lines += [line((cut(output.text(change.get("path")), width - 10), "strong"), (f"  {status}", "muted"))]
        for written in _hunks(change, width):
            if not room:
                break
            lines.append(written)
            room -= 1
    if not room:
        command = f"reef diff {output.text(diff.get('before'))} {output.text(diff.get('after'))}"
        lines.append(line((f"More differs than is shown here; all of it: {command}", "muted")))
    return lines


def lora(diff: JSONObject, width: int) -> list[Content]:
    """Rank, size and the norm of what each layer adds, on one scale for both sides."""
    sides = output.part(diff, "lora_before"), output.part(diff, "lora_after")
    if not any(sides) or sides[0].get("id") == sides[1].get("id"):
        return []
    lines = [*title("LoRA"), *(_lora_side(name, side) for name, side in zip(("before", "after"), sides, strict=True))]
    norms = output.part(sides[0], "norms"), output.part(sides[1], "norms")
    layers = sorted({*norms[0], *norms[1]}, key=lambda name: (len(name), name))[:_LAYERS]
    top = max((_float(side.get(layer)) for side in norms for layer in layers), default=0.0)
    if not top:
        return lines
    both = bool(norms[0]) and bool(norms[1])
    cells = max(6, min(28, (width - 24) // 2 if both else width - 18))
    lines.append(line((f"layer  {'before' if both else 'norm':{cells + 8}}{'after' if both else ''}", "muted")))
    for layer in layers:
        pieces: list[tuple[str, str] | Content] = [(f"{cut(layer, 5):>5}  ", "muted")]
        for side in norms:
            if side:
                value = _float(side.get(layer))
                pieces += [share_bar(value / top, cells), (f" {value:<7.3g}", "plain")]
        lines.append(line(*pieces))
    return lines


def settings(diff: JSONObject, width: int) -> list[Content]:
    found = output.rows(diff, "settings")
    if not found:
        return []
    names = min(32, max(len(output.text(item.get("name"))) for item in found) + 2)
    room = max(8, (width - names - 4) // 2)
    lines = title("Settings")
    for item in found:
        before, after = (cut(output.text(item.get(side)), room) for side in ("before", "after"))
        lines.append(
            line(
                (cut(output.text(item.get("name")), names - 1).ljust(names), "muted"),
                (before, "muted"),
                (" → ", "muted"),
                (after, "plain"),
            )
        )
    return lines


def tasks(diff: JSONObject, shown: Shown, width: int) -> list[Content]:
    """Each task with its outcome; those of two evaluations are matched by name, which proves less."""
    splits = output.part(diff, "tasks")
    found = [(split, output.rows(splits, split)) for split in _SPLITS]
    if not any(played for _, played in found):
        return []
    lines: list[Content] = []
    for split, played in found:
        if not played:
            continue
        counts = [sum(task.get("outcome") == outcome for task in played) for outcome in ("win", "loss", "tie")]
        lines += title(f"Tasks, {split}", f"{counts[0]} better, {counts[1]} worse, {counts[2]} the same")
        lines.append(line(*outcomes(counts[0], counts[1], counts[2], min(width, 40))))
        listed = [task for task in played if shown is Shown.ALL or task.get("outcome") == shown.value]
        for task in listed:
            lines += _task(task, width)
        if not listed:
            lines.append(line((f"No task became {'worse' if shown is Shown.LOSSES else 'better'}.", "muted")))
    if diff.get("tasks_compared") == "apart":
        lines.append(line(("Two evaluations, matched task by task: they were not played side by side.", "muted")))
    return lines


def _hunks(change: JSONObject, width: int) -> Iterator[Content]:
    for index, hunk in enumerate(output.rows(change, "hunks")):
        if index:
            yield line((f"{'⋯':>{_NUMBER}}", "muted"))
        for written in output.rows(hunk, "lines"):
            yield from _line(written, width)


def _line(written: JSONObject, width: int) -> Iterator[Content]:
    """A line of a file under its number and sign, wrapped beside them."""
    kind = output.text(written.get("kind"))
    number = written.get("before" if kind == "removed" else "after")
    role = kind if kind in _SIGNS else "muted"
    text = Content.assemble(*_words(written, role))
    gutter = f"{number if isinstance(number, int) else '':>{_NUMBER}} {_SIGNS.get(kind, ' ')} "
    for part in text.wrap(max(8, width - len(gutter))) or [text]:
        yield line((gutter[: _NUMBER + 1], "muted"), (gutter[_NUMBER + 1 :], role), part)
        gutter = f"{'':{_NUMBER}} {_SIGNS.get(kind, ' ')} "


def _words(written: JSONObject, role: str) -> Iterator[tuple[str, str]]:
    """The pieces of a line; where all of it is new or gone, its colour and sign say so already."""
    found = written.get("segments")
    segments = [(one[0], one[1] is True) for one in found if isinstance(one, list) and len(one) == 2] if isinstance(found, list) else []
    whole = all(changed for _, changed in segments)
    for text, changed in segments:
        if isinstance(text, str):
            yield clean(text).replace("\n", " "), STYLES[f"{role}-word" if changed and not whole and role in _SIGNS else role]


def _lora_side(name: str, side: JSONObject) -> Content:
    if not side:
        return line((f"{name:8}", "muted"), ("none", "plain"))
    rank, modules = side.get("rank"), side.get("modules")
    parts = [f"rank {output.text(rank)}" if rank else "", output.size(side.get("size_bytes"))]
    parts.append(", ".join(output.text(one) for one in modules[:8]) if isinstance(modules, list) else "")
    return line((f"{name:8}", "muted"), (cut(" · ".join(part for part in parts if part), 120), "plain"))


def _task(task: JSONObject, width: int) -> Iterator[Content]:
    sign, role = _OUTCOMES.get(output.text(task.get("outcome")), ("=", "muted"))
    scores = f"{_score(task.get('before'))} → {_score(task.get('after'))}"
    words = output.text(task.get("prompt"), "") or output.text(task.get("task"))
    room = max(8, min(width, _TASK_CELLS) - 16)
    yield line((f"{sign} ", role), (cut(words, room).ljust(room), "plain" if sign != "=" else "muted"), (f" {scores:>12}", role))
    for side in ("before", "after"):
        reply = task.get(f"reply_{side}")
        if isinstance(reply, str):
            for index, part in enumerate(wrapped(clean(reply), max(8, width - 12), _REPLY_LINES)):
                yield line((f"    {side if not index else '':8}", "muted"), (part, "plain"))


def _score(value: JSON) -> str:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return "–"
    return "failed" if value < 0 else f"{value:.2f}".rstrip("0").rstrip(".").replace("0.", ".") if value else "0"


def _float(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

"""The rows of a run: its phases with what came of them, the loss curve, the tasks, the decision."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reef_cli.tui.runs.curve import curve
from reef_cli.tui.widgets.feed import Line
from reef_cli.tui.wrapping import cells, cut, wrapped

_INDENT = 13
_NARROW = 46
_HEIGHT = 5  # of the curve, in cells
_WON, _LOST, _TIED, _OPEN = "█", "▒", "─", "·"


@dataclass(frozen=True, slots=True)
class Piece:
    """A name in the margin, a text beside it, at the right a short one, and further paragraphs below."""

    key: str
    sign: str
    name: str
    text: str  # clean
    right: str = ""
    more: tuple[tuple[str, str], ...] = ()  # paragraphs, each clean with its role
    sign_role: str = "dim"
    name_role: str = ""
    role: str = ""
    selectable: bool = False
    space: bool = False  # an empty line above

    def lines(self, width: int) -> Sequence[Line]:
        indent = _INDENT if width >= _NARROW else 3
        room = width - indent
        first = wrapped(self.text, room - (cells(self.right) + 2 if self.right else 0))
        body: list[tuple[str, str]] = [(line, self.role) for line in first]
        for paragraph, role in self.more:
            body += [(line, role) for line in wrapped(paragraph, room)]
        lines: list[Line] = [((" ", ""),)] if self.space else []
        head: Line = ((f"{self.sign:<2} ", self.sign_role), (self.name, self.name_role))
        if indent == 3:
            lines.append(head)
        else:
            head = (*head, (" " * max(1, indent - 3 - cells(self.name)), ""))
        for number, (line, role) in enumerate(body):
            margin: Line = head if number == 0 and indent != 3 else ((" " * indent, ""),)
            gap = room - cells(line) - cells(self.right)
            right: Line = ((" " * max(1, gap), ""), (self.right, "dim")) if number == 0 and self.right else ()
            lines.append((*margin, (line, role), *right))
        return lines


@dataclass(frozen=True, slots=True)
class Curve:
    """The loss, step by step, between its highest and its lowest."""

    key: str
    losses: tuple[float, ...]
    share: float  # of the steps that are done
    selectable: bool = False

    def lines(self, width: int) -> Sequence[Line]:
        indent = _INDENT if width >= _NARROW else 3
        finite = [loss for loss in self.losses if math.isfinite(loss)] or [0.0]
        labels = [f"{max(finite):.2f}", f"{min(finite):.2f}"]
        margin = max(len(label) for label in labels)
        room = min(72, width - indent - margin - 2)
        if room < 8:
            return [((" " * indent, ""), (" → ".join(labels), ""))]
        drawn = curve(self.losses, room, _HEIGHT, share=self.share)
        names = [labels[0], *[""] * (_HEIGHT - 2), labels[1]]
        return [
            ((" " * indent, ""), (f"{name:>{margin}} ", "dim"), ("│", "rule"), (line, "accent"))
            for name, line in zip(names, drawn, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Played:
    """One split's tasks as a bar: won, lost, tied, still to come; with counts, so that it reads without colour."""

    key: str
    name: str
    total: int
    won: int
    lost: int
    tied: int
    opened: bool = False
    selectable: bool = True

    def lines(self, width: int) -> Sequence[Line]:
        indent = _INDENT if width >= _NARROW else 3
        done = self.won + self.lost + self.tied
        words = cut(f"  {done} of {self.total}  +{self.won} −{self.lost} ={self.tied} {'▾' if self.opened else '▸'}", width - indent - 4)
        room = max(4, min(40, width - indent - len(words)))
        total = max(self.total, done, 1)
        ends = [round(room * part / total) for part in (self.won, self.won + self.lost, done)]
        parts: Line = (
            (_WON * ends[0], "good"),
            (_LOST * (ends[1] - ends[0]), "bad"),
            (_TIED * (ends[2] - ends[1]), "dim"),
            (_OPEN * (room - ends[2]), "rule"),
        )
        name: Line = (("   ", ""), (f"{self.name:<{_INDENT - 3}}", "dim")) if indent == _INDENT else (("   ", ""),)
        return [(*name, *(part for part in parts if part[0]), (words, "dim"))]


@dataclass(frozen=True, slots=True)
class TaskLine:
    """One task that was played: its sign, its name, both scores; its reply below where it is opened."""

    key: str
    sign: str
    name: str
    before: float
    after: float
    reply: str
    opened: bool = False
    selectable: bool = True

    def lines(self, width: int) -> Sequence[Line]:
        indent = _INDENT if width >= _NARROW else 5
        scores = f"{_score(self.before)} → {_score(self.after)}"
        room = width - indent - cells(scores) - 2
        name = cut(self.name, room)
        role = {"+": "good", "−": "bad"}.get(self.sign, "dim")
        first: Line = (
            (f"{self.sign:>{indent - 2}}  ", role),
            (name, "" if role != "dim" else "dim"),
            (" " * max(1, width - indent - cells(name) - cells(scores)), ""),
            (scores, role),
        )
        if not self.opened:
            return [first]
        said = wrapped(self.reply or "(nothing)", width - indent - 2, 12)
        return [first, *(((" " * indent, ""), (line, "dim")) for line in said)]


def _score(score: float) -> str:
    return "failed" if score < 0 else f"{score:.2g}"

"""The rows of a trajectory: what was said with a name in the margin, folded where it is long, and the rules between turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reef_cli.tui.widgets.feed import Line
from reef_cli.tui.wrapping import cells, cut, wrapped

GUTTER = 9
_GAP = 2
_NARROW = 40  # cells: below this the names stand above the text, not beside it
_MOST = 20_000  # lines of one opened text


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of a turn: a message, thoughts, a call, a result, signals, a report."""

    key: str
    turn: int  # which one it belongs to, as a place in the trajectory
    name: str  # in the margin
    text: str  # clean
    fold: int = 24  # lines shown while it is folded; 1: a summary on one line
    opened: bool = False
    role: str = ""
    name_role: str = "dim"
    lead: str = ""  # begins the first line, strong: the name of a tool
    selectable: bool = True

    def lines(self, width: int) -> Sequence[Line]:
        indent = GUTTER + _GAP if width >= _NARROW else 2
        room = width - indent - 2  # for the mark of a fold
        shown = self._shown(room)
        if indent == 2:
            return [((self.name, self.name_role),), *(((" " * indent, ""), *line) for line in shown)]
        margins = [f"{self.name:>{GUTTER}}", *[""] * (len(shown) - 1)]
        return [((f"{margin:<{indent}}", self.name_role), *line) for margin, line in zip(margins, shown, strict=True)]

    def _shown(self, room: int) -> list[Line]:
        if self.fold == 1 and not self.opened:
            return [self._summary(room)]
        lead = f"{self.lead}  " if self.lead else ""
        body = wrapped(" " * cells(lead) + self.text, room, _MOST if self.opened else self.fold + 2)
        if lead:
            body[0] = body[0][len(lead) :] if body[0].startswith(" " * len(lead)) else body[0].lstrip()
        hidden = 0 if self.opened else self._hidden(body)
        lines: list[Line] = [((line, self.role),) for line in (body[: self.fold] if hidden else body)]
        if lead:
            lines[0] = ((lead, "strong"), *lines[0])
        if hidden:
            lines.append(((f"▸ {self._size()}", "dim"),))
        elif self.opened and self._hidden(body[: self.fold + 2]):
            lines[0] = (("▾ ", "dim"), *lines[0])
            if len(body) == _MOST:
                lines.append((("… and more: reef session ID --full", "dim"),))
        return lines

    def _hidden(self, body: Sequence[str]) -> int:
        """How many of the first `fold` + 2 lines are left out. A fold of one line would take its place."""
        return len(body) - self.fold if len(body) > self.fold + 1 or (self.fold == 1 and len(body) > 1) else 0

    def _summary(self, room: int) -> Line:
        count = self.text.count("\n") + 1
        if count == 1 and cells(self.text) <= room:
            return ((self.text, self.role),)
        size = f" · {count} lines" if count > 1 else f" · {len(self.text):,} characters"
        first = next((line for line in self.text.split("\n") if line.strip()), "")
        return (("▸ ", "dim"), (cut(" ".join(first[:400].split()), room - 2 - len(size)), self.role), (size, "dim"))

    def _size(self) -> str:
        """What a fold holds, in all."""
        count = self.text.count("\n") + 1
        return f"{count:,} lines in all" if count > self.fold else f"{len(self.text):,} characters in all"


@dataclass(frozen=True, slots=True)
class Rule:
    """Where a turn begins: its number on the left, who answered and when on the right."""

    key: str
    turn: int
    number: str
    mark: str  # how it goes on, where that is not simply from the turn above
    right: str
    judged: str = ""  # ✓ or ✗ with a word
    selectable: bool = False

    def lines(self, width: int) -> Sequence[Line]:
        role = {"✓": "good", "✗": "bad"}.get(self.judged[:1], "dim")
        judged: Line = ((self.judged, role), ("  ", "")) if self.judged else ()
        right: Line = (*judged, (self.right, "dim"))
        taken = sum(cells(text) for text, _ in right)
        mark = cut(self.mark, max(3, width - taken - cells(self.number) - 6))
        left: Line = ((f"{self.number} ", "strong"), *(((f"{mark} ", "warn"),) if mark else ()))
        room = width - taken - sum(cells(text) for text, _ in left) - 1
        return [((" ", ""),), (*left, ("─" * max(1, room), "rule"), (" ", ""), *right)]


@dataclass(frozen=True, slots=True)
class Words:
    """A sentence between the rows that cannot be selected: that more is being read, where the end is."""

    key: str
    text: str
    role: str = "dim"
    selectable: bool = False

    def lines(self, width: int) -> Sequence[Line]:
        return [((line, self.role),) for line in wrapped(self.text, width)]

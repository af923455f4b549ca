"""One release in the list: a row of the chain, as `git log --graph` draws it, with its bar and its change line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from reef_cli import change_line, output
from reef_cli.tui.releases.prose import outcomes
from reef_cli.tui.releases.release import Release, State
from reef_cli.tui.widgets.feed import Line, Span
from reef_cli.tui.wrapping import cells, cut

_BAR = 10
_GUTTER, _NAME, _AGE = 4, 7, 4
_TWO_LINES_BELOW = 66  # cells: beside its bar, a change line would be cut short
_ROLES: Final = {State.SERVING: "good", State.EARLIER: "", State.HELD: "warn", State.PROMOTED: "dim", State.REJECTED: "dim"}


@dataclass(frozen=True, slots=True)
class ReleaseRow:
    """`●   r14    2h  +2 rules −1 skill · held-out 61→68 of 80     ━━━━━━╍───`, or that on two lines where there is less room."""

    release: Release
    age: str
    below_head: bool
    """It is older than the head, so that the chain's line runs past it if it stands beside the chain."""
    last: bool
    """It is the first release: no line runs on below it."""
    marked: bool
    """The next comparison starts from it."""

    @property
    def key(self) -> str:
        return self.release.id

    @property
    def selectable(self) -> bool:
        return True

    def lines(self, width: int) -> Sequence[Line]:
        head = (*self._gutter(), *self._name(), (self.age.rjust(_AGE), "dim"), ("  ", ""))
        beside = width - sum(cells(text) for text, _ in head) - _BAR - 2
        if width >= _TWO_LINES_BELOW:
            text = (_fit(self.release, beside), _text_role(self.release))
            return ((*head, _padded(text, beside), *self._bar()),)
        runs_on = not self.last and (self.below_head or self.release.published)
        indent = (("│" if runs_on else " ", "rule"), (" " * (_GUTTER + 1), ""))
        below = (_fit(self.release, width - _GUTTER - 2), _text_role(self.release))
        return ((*head, _padded((cut(self._standing(), beside), "dim"), beside), *self._bar()), (*indent, below))

    def _gutter(self) -> tuple[Span, ...]:
        sign = (self.release.state.value, _ROLES[self.release.state])
        if self.release.published:
            return (sign, ("   ", ""))
        return (("│ " if self.below_head else "  ", "rule"), sign, (" ", ""))

    def _name(self) -> tuple[Span, ...]:
        release = self.release
        role = "strong" if release.serves else "warn" if release.state is State.HELD else "" if release.published else "dim"
        signs = ("◆" if release.pinned else "") + (" A" if self.marked else "")
        return (release.id, role), (signs, "accent"), (" " * max(1, _NAME - cells(release.id) - cells(signs)), "")

    def _standing(self) -> str:
        """What made it, and what became of it."""
        release = self.release
        became = {
            State.SERVING: "serves now",
            State.EARLIER: "",
            State.HELD: "held, has aged" if release.aged else "held",
            State.PROMOTED: f"promoted as {release.promoted_as}" if release.promoted_as else "promoted",
            State.REJECTED: "rejected",
        }
        return " · ".join(part for part in (release.by, became[release.state]) if part)

    def _bar(self) -> tuple[Span, ...]:
        """A cell for each task that became better or worse, at most ten: its length is the evidence, what fills it the direction."""
        found = self.release.evaluation
        if found is None or not found.played:
            return ()
        untied = min(_BAR, found.wins + found.losses)
        return ("  ", ""), *outcomes(found.wins, found.losses, 0, untied), ("─" * (_BAR - untied), "rule")


def rows(releases: Sequence[Release], marked: str, complete: bool) -> list[ReleaseRow]:
    """A row for each release of the list that is shown, newest first."""
    head = next((release.number for release in releases if release.serves), 0)
    last = releases[-1].id if releases and complete else ""
    return [
        ReleaseRow(
            release, output.age(release.recorded_at).removesuffix(" ago"), release.number < head, release.id == last, release.id == marked
        )
        for release in releases
    ]


def _fit(release: Release, width: int) -> str:
    return cut(change_line.fit(list(release.parts), width) if release.parts else release.line, width)


def _text_role(release: Release) -> str:
    return "" if release.published or release.state is State.HELD else "dim"


def _padded(span: Span, width: int) -> Span:
    return span[0] + " " * max(0, width - cells(span[0])), span[1]

"""Text of the releases tab: pieces with roles, and what is drawn with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Final, TypeAlias

from textual.content import Content

from reef_cli.tui.widgets.bars import LOST, TIED, WON, outcome_bar
from reef_cli.tui.wrapping import cells

Piece: TypeAlias = tuple[str, str] | Content
"""Text with a role, or what is drawn already."""

STYLES: Final = {
    "plain": "",
    "strong": "bold",
    "muted": "$text-muted",
    "good": "$text-success",
    "bad": "$text-error",
    "waiting": "$text-warning",
    "title": "bold $text-primary",
    "rule": "$foreground 25%",
    "added": "$text-success",
    "removed": "$text-error",
    "added-word": "bold $text-success on $success-muted",
    "removed-word": "bold $text-error on $error-muted",
}
"""Role → Textual style. A role is never the only sign of what it says."""

_THIN: Final = {WON: ("━", "good"), LOST: ("╍", "bad"), TIED: ("─", "rule")}


def line(*pieces: Piece) -> Content:
    """One line. The text is taken as it is: nothing in it is markup."""
    return Content.assemble(*(piece if isinstance(piece, Content) else (piece[0], STYLES[piece[1]]) for piece in pieces))


def page(lines: Iterable[Content]) -> Content:
    return Content("\n").join(list(lines))


def title(text: str, note: str = "") -> list[Content]:
    """A heading with air above it."""
    return [Content(), line((text, "title"), (f"  {note}" if note else "", "muted"))]


def outcomes(wins: int, losses: int, ties: int, width: int) -> list[tuple[str, str]]:
    """`━━━━╍╍───`: as `outcome_bar`, drawn thin, so that many of them below each other stay calm."""
    signs = outcome_bar(wins, losses, ties, width).plain if width else ""
    return [(_THIN[sign][0] * len(list(group)), _THIN[sign][1]) for sign, group in groupby(signs) if sign in _THIN]


def level(share: float, width: int, role: str) -> list[tuple[str, str]]:
    """`━━━━━━───`: a share from 0 to 1."""
    filled = round(max(0.0, min(1.0, share)) * width)
    return [("━" * filled, role), ("─" * (width - filled), "rule")]


def chance(p: float) -> str:
    """`p .03`, `p <.001`."""
    if p < 0.001:
        return "p <.001"
    digits = f"{p:.2f}" if p >= 0.1 else f"{p:.1g}"
    return "p " + (digits.rstrip("0").rstrip(".") or "0").removeprefix("0")


def signed(share: float, digits: int) -> str:
    """`+1.2 %`, `−8 %`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.{digits}f} %"


def facts(rows: Sequence[tuple[str, str]]) -> list[Content]:
    """Names and values in two columns; what has no value is left out."""
    shown = [(name, value) for name, value in rows if value]
    width = max((cells(name) for name, _ in shown), default=0) + 2
    return [line((name.ljust(width), "muted"), (value, "plain")) for name, value in shown]


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"

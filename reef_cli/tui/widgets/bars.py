"""Small pictures of numbers, one line high. Each reads without colour too: by its length, its density, its sign."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_HEIGHTS = " ▁▂▃▄▅▆▇█"
WON, LOST, TIED = "█", "▒", "─"


def share_bar(share: float, width: int, style: str = "$text-primary") -> Content:
    """A bar filled by `share` (0 … 1) of `width` cells, to an eighth of a cell."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    whole, rest = divmod(eighths, 8)
    filled = "█" * whole + (_EIGHTHS[rest] if rest else "")
    return Content.assemble((filled, style), ("·" * (width - len(filled)), "$text-disabled"))


def outcome_bar(wins: int, losses: int, ties: int, width: int) -> Content:
    """How the tasks of an evaluation went: `████▒▒────`, wins first. Whatever there is of a kind gets a cell at least."""
    counts = {WON: wins, LOST: losses, TIED: ties}
    total = sum(counts.values())
    if not total:
        return Content.styled("·" * width, "$text-disabled")
    cells = {sign: max(1, round(count * width / total)) if count else 0 for sign, count in counts.items()}
    while (over := sum(cells.values()) - width) > 0 and max(cells.values()) > 1:
        largest = max(cells, key=lambda sign: cells[sign])
        cells[largest] -= min(over, cells[largest] - 1)
    if (short := width - sum(cells.values())) > 0:
        cells[max(counts, key=lambda sign: counts[sign])] += short
    styles = {WON: "$text-success", LOST: "$text-error", TIED: "$text-disabled"}
    return Content.assemble(*((sign * cells[sign], styles[sign]) for sign in (WON, LOST, TIED)))


def change_bar(before: float, after: float, width: int) -> Content:
    """From one share (0 … 1) to another: what stayed is solid, what was gained `▓`, what was lost `░`."""
    first, second = (round(max(0.0, min(1.0, share)) * width) for share in (before, after))
    kept, moved = min(first, second), abs(first - second)
    sign, style = ("▓", "$text-success") if second >= first else ("░", "$text-error")
    return Content.assemble(("█" * kept, "$text-primary"), (sign * moved, style), ("·" * (width - kept - moved), "$text-disabled"))


def sparkline(values: Sequence[float], width: int, highest: float = 0.0, style: str = "$text-primary") -> Content:
    """The last `width` values as columns, the newest at the right; `highest` is the least value that fills a column."""
    return area(values, width, 1, highest, style)[0]


def area(values: Sequence[float], width: int, height: int, highest: float = 0.0, style: str = "$text-primary") -> list[Content]:
    """The same, `height` lines high, the top line first. What is not measured yet is a dotted line."""
    shown = list(values)[-width:]
    top = max(highest, max(shown, default=0.0))
    eighths = [0 if value <= 0 or top <= 0 else max(1, round(value / top * height * 8)) for value in shown]
    lines = []
    for row in reversed(range(height)):
        columns = "".join(_HEIGHTS[max(0, min(8, eighth - 8 * row))] for eighth in eighths)
        rest = width - len(columns)
        lines.append(Content.assemble(((" " if row else "·") * rest, "$text-disabled"), (columns, style)))
    return lines

"""A curve in characters: braille dots, two columns and four rows of them a cell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # by column, then by row from above
_BLANK = 0x2800
_MOST = 1e100  # so that no difference or sum leaves the numbers


def curve(values: Sequence[float], width: int, height: int, *, share: float = 1.0) -> list[str]:
    """The values from left to right, joined by a line; the highest is at the top, the lowest at the bottom.

    Args:
        width, height: cells.
        share: how much of the width they take; the rest is still to come.

    Returns:
        `height` lines of `width` cells.
    """
    finite = [max(-_MOST, min(_MOST, value)) for value in values if math.isfinite(value)]
    if not finite or width < 1 or height < 1:
        return [" " * width] * height
    columns = max(1, round(2 * width * min(1.0, max(0.0, share))))
    points = _spread(finite, columns)
    low, high = min(points), max(points)
    rows = 4 * height
    places = [rows - 1 - round((value - low) / (high - low) * (rows - 1)) if high > low else rows // 2 for value in points]
    grid = [[0] * width for _ in range(height)]
    before = places[0]
    for column, place in enumerate(places):
        first, last = sorted((before, place))
        if last - first > 1:  # the line goes on from where the one before ended
            first, last = (first + 1, last) if place > before else (first, last - 1)
        else:
            first = last = place
        for row in range(first, last + 1):
            grid[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
        before = place
    return ["".join(chr(_BLANK + cell) if cell else " " for cell in row) for row in grid]


def _spread(values: Sequence[float], columns: int) -> list[float]:
    """One value a column: the mean of those that fall into it, or between the two around it where they are fewer."""
    count = len(values)
    if count >= columns:
        edges = [number * count // columns for number in range(columns + 1)]
        return [sum(values[first:last]) / (last - first) for first, last in itertools.pairwise(edges)]
    if count == 1:
        return [values[0]] * columns
    spread = []
    for column in range(columns):
        place = column * (count - 1) / max(1, columns - 1)
        left = min(int(place), count - 2)
        spread.append(values[left] + (values[left + 1] - values[left]) * (place - left))
    return spread

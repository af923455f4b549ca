"""A text's changes line by line, and within the lines word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

Segments: TypeAlias = "tuple[tuple[str, bool], ...]"
"""Pieces of a line in order, each with whether it changed."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_CONTEXT_LINES: Final = 3
_MOST_TOKENS: Final = 4000
"""In one changed place; in a longer one whole lines are marked."""
_MOST_PAIRS: Final = 1_000_000
"""Of differing lines: comparing may take the product of both sides, and texts are bounded by size alone."""
_ALIKE: Final = 0.4
"""Of a line's letters that must have stayed before its words are told apart: below, marks would only sprinkle it."""


class LineKind(StrEnum):
    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


_SIGNS: Final = {LineKind.SAME: " ", LineKind.REMOVED: "-", LineKind.ADDED: "+"}


@dataclass(frozen=True, slots=True)
class Line:
    kind: LineKind
    before: int | None  # line numbers, from 1; None on the side that has no such line
    after: int | None
    segments: Segments


@dataclass(frozen=True, slots=True)
class Hunk:
    """A place that changed, with a few lines around it."""

    before_line: int  # numbers of its first lines
    after_line: int
    lines: tuple[Line, ...]


def hunks(before: str, after: str) -> tuple[Hunk, ...]:
    """All places where `after` differs; without any where both are the same line by line."""
    old, new = before.splitlines(), after.splitlines()
    found = []
    for group in _groups(old, new):
        lines: list[Line] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                lines += [Line(LineKind.SAME, i + 1, j + 1, ((old[i], False),)) for i, j in zip(range(i1, i2), range(j1, j2), strict=True)]
                continue
            removed, added = _words(old[i1:i2], new[j1:j2])
            lines += [Line(LineKind.REMOVED, i1 + place + 1, None, segments) for place, segments in enumerate(removed)]
            lines += [Line(LineKind.ADDED, None, j1 + place + 1, segments) for place, segments in enumerate(added)]
        found.append(Hunk(group[0][1] + 1, group[0][3] + 1, tuple(lines)))
    return tuple(found)


def unified(names: tuple[str, str], found: Sequence[Hunk]) -> str:
    """The same as a unified diff, for programs."""
    lines = [f"--- {names[0]}", f"+++ {names[1]}"]
    for hunk in found:
        counts = [sum(line.kind is not other for line in hunk.lines) for other in (LineKind.ADDED, LineKind.REMOVED)]
        ranges = [_range(start, count) for start, count in zip((hunk.before_line, hunk.after_line), counts, strict=True)]
        lines.append(f"@@ -{ranges[0]} +{ranges[1]} @@")
        lines += [_SIGNS[line.kind] + "".join(text for text, _ in line.segments) for line in hunk.lines]
    return "\n".join(lines) + "\n"


def _range(start: int, count: int) -> str:
    """As POSIX has it: a range of one line is its number, an empty one begins at the line before."""
    return str(start) if count == 1 else f"{start - (count == 0)},{count}"


def _groups(old: Sequence[str], new: Sequence[str]) -> Iterable[Sequence[tuple[str, int, int, int, int]]]:
    """The changed places with a few lines around each, as difflib's opcodes."""
    start = next((number for number, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), min(len(old), len(new)))
    rest = zip(reversed(old[start:]), reversed(new[start:]), strict=False)
    end = next((number for number, pair in enumerate(rest) if pair[0] != pair[1]), min(len(old), len(new)) - start)
    if (len(old) - start - end) * (len(new) - start - end) <= _MOST_PAIRS:
        return difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT_LINES)
    before, after = min(start, _CONTEXT_LINES), min(end, _CONTEXT_LINES)
    i, j = len(old) - end, len(new) - end
    around = [
        ("equal", start - before, start, start - before, start),
        ("replace", start, i, start, j),
        ("equal", i, i + after, j, j + after),
    ]
    return [[one for one in around if one[2] > one[1] or one[4] > one[3]]]


def _words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Segments], list[Segments]]:
    """The removed and the added lines of one place, each in pieces."""
    sides: list[list[str]] = [_TOKEN.findall("\n".join(lines)) for lines in (old, new)]
    if not old or not new or sum(len(side) for side in sides) > _MOST_TOKENS:
        return [((line, True),) for line in old], [((line, True),) for line in new]
    matcher = difflib.SequenceMatcher(None, sides[0], sides[1])
    kept = [[False] * len(side) for side in sides]
    for i, j, length in matcher.get_matching_blocks():
        kept[0][i : i + length] = kept[1][j : j + length] = [True] * length
    return _lines(old, sides[0], kept[0]), _lines(new, sides[1], kept[1])


def _lines(lines: Sequence[str], tokens: Sequence[str], kept: Sequence[bool]) -> list[Segments]:
    """The tokens of several lines as the pieces of each; a line of which little stayed is one changed piece."""
    pieces: list[list[tuple[str, bool]]] = [[]]
    for token, stays in zip(tokens, kept, strict=True):
        first, *more = token.split("\n")
        _extend(pieces[-1], first, not stays)
        for rest in more:
            pieces.append([])
            _extend(pieces[-1], rest, not stays)
    return [tuple(line) if _stayed(line) >= _ALIKE else ((whole, True),) for line, whole in zip(pieces, lines, strict=True)]


def _extend(line: list[tuple[str, bool]], text: str, changed: bool) -> None:
    if not text:
        return
    if line and line[-1][1] == changed:
        line[-1] = (line[-1][0] + text, changed)
    else:
        line.append((text, changed))


def _stayed(line: Sequence[tuple[str, bool]]) -> float:
    """The share of a line's characters that stayed, white space aside."""
    sizes = {changed: sum(len("".join(text.split())) for text, was in line if was is changed) for changed in (False, True)}
    whole = sum(sizes.values())
    return sizes[False] / whole if whole else 1.0

"""A text's changes line by line, and within the lines word by word."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

Segments: TypeAlias = "tuple[tuple[str, bool], ...]"
"""Pieces of a line in order, each with whether it changed."""

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_CONTEXT_LINES: Final = 3
_MOST_TOKENS: Final = 4000
"""In one changed place; in a longer one whole lines are marked, as comparing words takes the product of both sides."""
_ALIKE: Final = 0.4
"""Of a line's letters that must have stayed before its words are told apart: below, marks would only sprinkle it."""


class LineKind(StrEnum):
    SAME = "same"
    REMOVED = "removed"
    ADDED = "added"


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
    for group in difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT_LINES):
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


def _words(old: Sequence[str], new: Sequence[str]) -> tuple[list[Segments], list[Segments]]:
    """The removed and the added lines of one place, each in pieces."""
    sides: list[list[str]] = [_TOKEN.findall("\n".join(lines)) for lines in (old, new)]
    if not old or not new or sum(len(side) for side in sides) > _MOST_TOKENS:
        return [((line, True),) for line in old], [((line, True),) for line in new]
    matcher = difflib.SequenceMatcher(None, sides[0], sides[1], autojunk=False)
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

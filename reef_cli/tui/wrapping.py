"""Recorded text as lines of a screen: nothing in it steers a terminal, wide characters take their two cells."""

from __future__ import annotations

from rich.cells import cell_len, get_character_cell_size

from reef_cli import output

_TAB = 4


def cells(text: str) -> int:
    return len(text) if text.isascii() else cell_len(text)


def clean(text: str) -> str:
    """One paragraph or many, without control characters. Tabs become spaces."""
    if "\t" in text:
        text = text.expandtabs(_TAB)
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line if line.isprintable() else output.printable_lines(line) for line in lines)


def cut(text: str, width: int) -> str:
    """One line of at most `width` cells; `…` where something is missing."""
    line = output.printable(text)
    if cells(line) <= width:
        return line
    return line[: _fitting(line, 0, max(0, width - 1))].rstrip() + "…" if width > 0 else ""


def wrapped(text: str, width: int, limit: int | None = None) -> list[str]:
    """The lines of a clean text, each at most `width` cells, broken between words where there are any; the first `limit` of them."""
    lines: list[str] = []
    for paragraph in text.split("\n") if limit is None else text.split("\n", limit)[:limit]:
        start = 0
        while True:
            stop, following = _break(paragraph, start, max(1, width))
            lines.append(paragraph[start:stop])
            if len(lines) == limit:
                return lines
            if following >= len(paragraph):
                break
            start = following
    return lines


def _break(line: str, start: int, width: int) -> tuple[int, int]:
    """Where the line ends that begins at `start`, and where the next one begins."""
    fitting = _fitting(line, start, width)
    if fitting >= len(line):
        return len(line), len(line)
    space = line.rfind(" ", start + 1, fitting + 1)
    if space - start > width // 3:
        return space, space + 1
    stop = max(fitting, start + 1)  # a cell too narrow for a wide character still takes it
    return stop, stop


def _fitting(line: str, start: int, width: int) -> int:
    """Behind the last character that fits."""
    part = line[start : start + width]
    if part.isascii():
        return start + len(part)
    room, place = width, start
    while place < len(line):
        room -= get_character_cell_size(line[place])
        if room < 0:
            break
        place += 1
    return place

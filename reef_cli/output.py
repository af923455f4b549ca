"""What a command prints: tables, JSON, ages and sizes. Colour never carries a meaning of its own."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

GREEN, RED, YELLOW, DIM, BOLD = "32", "31", "33", "2", "1"


def coloured() -> bool:
    """Where a person looks on; not in a pipe, and not with NO_COLOR."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def paint(text: str, code: str) -> str:
    """In colour where that can be seen, else as it is."""
    return f"\x1b[{code}m{text}\x1b[0m" if coloured() else text


def print_json(value: JSON) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]], nothing: str) -> None:
    """Columns of equal width; the last one is cut to the terminal. `nothing` is said where there are no rows."""
    if not rows:
        print(nothing)
        return
    cleaned = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(header, *cleaned, strict=True)]
    room = columns() or 10_000
    for index, row in enumerate((list(header), *cleaned)):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        line = line if len(line) <= room else line[: room - 1] + "…"
        print(paint(line, BOLD) if index == 0 else line)


def columns() -> int | None:
    """Columns of the terminal; None where nobody looks on."""
    return shutil.get_terminal_size((120, 24)).columns if sys.stdout.isatty() else None


def printable(text: str) -> str:
    """One line without control characters: recorded text must not steer a terminal."""
    return text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)


def printable_lines(text: str) -> str:
    """As `printable`, but line breaks and tabs stay."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)


def shorten(text: str, limit: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def age(at: JSON) -> str:
    """How long ago: `3m ago`. Takes seconds since the epoch or an ISO time."""
    seconds = to_seconds(at)
    if seconds is None:
        return "-"
    passed = max(0.0, time.time() - seconds)
    for unit, length in (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("m", 60)):
        if passed >= length:
            return f"{int(passed // length)}{unit} ago"
    return f"{int(passed)}s ago"


def to_seconds(at: JSON) -> float | None:
    if isinstance(at, int | float) and not isinstance(at, bool):
        return float(at)
    if isinstance(at, str):
        from datetime import datetime

        try:
            return datetime.fromisoformat(at).timestamp()
        except ValueError:
            return None
    return None


def size(count: JSON) -> str:
    """Bytes for people: `9.4 MB`."""
    if not isinstance(count, int | float):
        return "-"
    value = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def count(value: JSON) -> str:
    """A number of things for people: `32,768`."""
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else "-"


def text(value: JSON, otherwise: str = "-") -> str:
    """A field of an answer as text."""
    if value is None or value == "":
        return otherwise
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)


def rows(answer: JSONObject, name: str) -> list[JSONObject]:
    """The list `name` of an answer, its objects only."""
    found = answer.get(name, answer.get("items"))
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def part(answer: JSONObject, name: str) -> JSONObject:
    """The object `name` of an answer; empty where it is none."""
    found = answer.get(name)
    return found if isinstance(found, dict) else {}

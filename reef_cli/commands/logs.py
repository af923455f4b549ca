"""`reef logs`: the daemon's log, a line a request."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from daemon.errors import NotFound
from reef_cli.locations import home
from reef_cli.output import paint, printable_lines

if TYPE_CHECKING:
    from daemon.records import JSONObject

_BLOCK_BYTES = 1 << 16
_MAX_LINE_BYTES = 1 << 20


class Level(StrEnum):
    info = "info"
    warning = "warning"
    error = "error"


_RANKS = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}


def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows; Ctrl-C ends.")] = False,
    request: Annotated[
        str, typer.Option("--request", "-r", metavar="ID", help="Only of this request; its x-request-id, or its receipt.")
    ] = "",
    level: Annotated[Level, typer.Option("--level", "-l", help="Leave out what matters less.")] = Level.info,
    json_output: Annotated[bool, typer.Option("--json", help="The lines as they are stored: one JSON object each.")] = False,
) -> None:
    """It needs no running daemon.

    \b
    Examples:
      reef logs -n 200
      reef logs -f
      reef logs --level warning
    """
    path = home().log
    if not path.is_file():
        raise NotFound(f"There is no log yet at {path}.", "Start the daemon: reef up")
    wanted = _Wanted(request, level)
    end = path.stat().st_size
    for line in _last(path, end, lines, wanted):
        _show(line, json_output=json_output)
    while follow:
        end = _follow(path, end, wanted, json_output=json_output)


@dataclass(frozen=True, slots=True)
class _Wanted:
    request: str
    level: Level

    def takes(self, line: bytes) -> bool:
        entry = _entry(line)
        if entry is None:
            return not self.request and self.level is Level.info
        if self.request and self.request not in (entry.get("request_id"), entry.get("receipt")):
            return False
        return _RANKS.get(str(entry.get("level")), 1) >= _RANKS[self.level]


def _last(path: Path, end: int, count: int, wanted: _Wanted) -> list[bytes]:
    """The last `count` lines that are wanted, oldest first; the files that were set aside are read where this one holds too few."""
    found: list[bytes] = []
    for place in (path, *(path.with_name(f"{path.name}.{number}") for number in range(1, 10))):
        if len(found) >= count or not place.is_file():
            break
        for line in _backwards(place, end if place == path else None):
            if len(found) >= count:
                break
            if line and wanted.takes(line):
                found.append(line)
    return found[::-1]


def _backwards(path: Path, end: int | None) -> Iterator[bytes]:
    """The lines of a file from its end on."""
    with path.open("rb") as stream:
        position = stream.seek(0, 2) if end is None else end
        rest = b""
        while position > 0:
            step = min(_BLOCK_BYTES, position)
            position -= step
            stream.seek(position)
            first, *others = (stream.read(step) + rest).split(b"\n")
            yield from reversed(others)
            rest = first[:_MAX_LINE_BYTES]
        yield rest


def _follow(path: Path, end: int, wanted: _Wanted, *, json_output: bool) -> int:
    """Wait a little, show what came, and say up to where."""
    time.sleep(0.25)
    try:
        with path.open("rb") as stream:
            if stream.seek(0, 2) < end:  # a new log began
                end = 0
            stream.seek(end)
            data = stream.read()
    except FileNotFoundError:  # the daemon is just setting a full log aside
        return end
    whole = data[: data.rfind(b"\n") + 1]  # the rest of a half-written line comes later
    for line in whole.split(b"\n"):
        if line and wanted.takes(line):
            _show(line, json_output=json_output)
    return end + len(whole)


def _show(line: bytes, *, json_output: bool) -> None:
    from daemon.observing.log_lines import render

    entry = None if json_output else _entry(line)
    text = line.decode("utf-8", "replace") if entry is None else render(entry, paint)
    print(text if entry is not None else printable_lines(text), flush=True)


def _entry(line: bytes) -> JSONObject | None:
    """None for what is no line of ours: what a process printed as it died, or an older Reef's."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None

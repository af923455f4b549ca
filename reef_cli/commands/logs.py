"""`reef logs`: the daemon's log."""

from __future__ import annotations

import codecs
import time
from pathlib import Path
from typing import Annotated

import typer

from daemon.errors import NotFound
from reef_cli.locations import home
from reef_cli.output import printable_lines

_BLOCK_BYTES = 1 << 16


def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", min=0, help="How many of the last lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as it grows; Ctrl-C ends.")] = False,
) -> None:
    """It needs no running daemon.

    \b
    Examples:
      reef logs -n 200
      reef logs -f
    """
    path = home().log
    if not path.is_file():
        raise NotFound(f"There is no log yet at {path}.", "Start the daemon: reef up")
    tail, end = _tail(path, lines)
    print(printable_lines(tail), end="", flush=True)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a character may be half written
    while follow:
        time.sleep(0.25)
        try:
            with path.open("rb") as stream:
                if stream.seek(0, 2) < end:  # a new log began
                    end = 0
                stream.seek(end)
                data = stream.read()
        except FileNotFoundError:  # the daemon is just setting a full log aside
            continue
        end += len(data)
        print(printable_lines(decoder.decode(data)), end="", flush=True)


def _tail(path: Path, lines: int) -> tuple[str, int]:
    """The last lines and the file's size, reading from the end."""
    with path.open("rb") as stream:
        end = position = stream.seek(0, 2)
        data = b""
        while position > 0 and data.count(b"\n") <= lines:
            step = min(_BLOCK_BYTES, position)
            position -= step
            stream.seek(position)
            data = stream.read(step) + data
    kept = data.splitlines(keepends=True)[-lines:] if lines else []
    return b"".join(kept).decode("utf-8", "replace"), end

"""A line that moves while something takes longer than a second; plain lines where no terminal looks on."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Iterator


class ProgressLine:
    """Writes to stderr, so that stdout stays what the command was asked for."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._width = 0
        self._last_told = 0.0

    def update(self, text: str, done: bool = False) -> None:
        """Replace the line. Without a terminal a line is printed every ten seconds, and the last one always."""
        if self._moving:
            sys.stderr.write("\r" + text.ljust(self._width) + ("\n" if done else ""))
            self._width = 0 if done else len(text)
        elif done or time.monotonic() - self._last_told >= 10:
            sys.stderr.write(text + "\n")
            self._last_told = time.monotonic()
        sys.stderr.flush()

    def line(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        print(text, file=sys.stderr, flush=True)

    def clear(self) -> None:
        if self._moving and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            self._width = 0


@contextlib.contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that something goes on, and for how long, until the block ends."""
    line, done, began = ProgressLine(), threading.Event(), time.monotonic()

    def tell() -> None:
        while not done.wait(1.0):
            line.update(f"{what} … {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        line.clear()


def bar(done: int, total: int, width: int = 24) -> str:
    filled = width * done // total if total > 0 else 0
    return "█" * filled + "·" * (width - filled)

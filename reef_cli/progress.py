"""A line that moves while something takes longer than a second; plain lines where no terminal looks on."""

from __future__ import annotations

import sys
import time


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


def bar(done: int, total: int, width: int = 24) -> str:
    filled = width * done // total if total > 0 else 0
    return "█" * filled + "·" * (width - filled)

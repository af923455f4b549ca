"""Bytes of tokens to text that can be shown: whole characters, and nothing that may still become a stop string."""

from __future__ import annotations

import codecs


class TextStream:
    """One reply's text as it grows."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._held = ""
        self.stop = ""

    def push(self, piece: bytes) -> str:
        """Add a token's bytes; returns what may be shown now. `stop` is the stop string once one is complete; it is never shown."""
        self._held += self._decoder.decode(piece)
        found = min(((at, stop) for stop in self._stops if (at := self._held.find(stop)) >= 0), default=None)
        if found is not None:
            at, self.stop = found
            shown, self._held = self._held[:at], ""
            return shown
        keep = max((_overlap(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        shown, self._held = self._held[:cut], self._held[cut:]
        return shown

    def finish(self) -> str:
        """The reply is over: what was held back. The first bytes of a character that never came are dropped."""
        shown, self._held = self._held, ""
        return shown


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that is a beginning of `stop`."""
    return next((size for size in range(min(len(text), len(stop) - 1), 0, -1) if stop.startswith(text[-size:])), 0)

"""Server-sent events as another server sends them: each kept as it came, so that it can be passed on unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass

from daemon.errors import EngineError

EVENT_LIMIT_BYTES = 16 << 20
REPLY_LIMIT_BYTES = 64 << 20  # of a reply that never ends
_END = re.compile(rb"\r\n\r\n|\n\n|\r\r|\n\r\n")
_LONGEST_END = 4


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event, or a comment."""

    frame: bytes  # with its blank line
    data: tuple[str, ...]  # what its `data:` lines hold; the servers in question write each JSON value on one line


class EventSplitter:
    """Takes a stream in blocks, wherever they are cut."""

    def __init__(self) -> None:
        self._pending = bytearray()
        self._received = 0

    def feed(self, block: bytes) -> list[ServerEvent]:
        """The events that `block` completes.

        Raises:
            EngineError: an event, or the reply, is too long.
        """
        self._received += len(block)
        if self._received > REPLY_LIMIT_BYTES:
            raise EngineError("The upstream sent a reply without end.", "Set max_tokens, and look at its log.")
        pending = self._pending
        place = max(0, len(pending) - _LONGEST_END + 1)
        pending += block
        events: list[ServerEvent] = []
        start = 0
        while (end := _END.search(pending, place)) is not None:
            place = end.end()
            events.append(_event(bytes(pending[start:place])))
            start = place
        del pending[:start]
        if len(pending) > EVENT_LIMIT_BYTES:
            raise EngineError("The upstream sent a line without end.", "Look at its log.")
        return events

    def rest(self) -> list[ServerEvent]:
        """What came after the last blank line, as an event with one."""
        return [_event(bytes(self._pending.rstrip(b"\r\n")) + b"\n\n")] if self._pending.strip() else []


def _event(frame: bytes) -> ServerEvent:
    lines = frame.splitlines()
    return ServerEvent(frame, tuple(line[5:].strip().decode(errors="replace") for line in lines if line.startswith(b"data:")))

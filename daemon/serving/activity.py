"""Who is being served right now, and since when nobody is: learning waits for that."""

from __future__ import annotations

import asyncio
import time
from collections import Counter


class Activity:
    """Counts live requests. All times are seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._active: dict[str, int] = {}
        self.stored: Counter[str] = Counter()
        """By scenario: how often something ended or came in that may have left experience. What it left is on disk by then."""
        self._started = time.monotonic()
        self._free = asyncio.Event()
        self._free.set()
        self._busy = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Live requests of all scenarios."""
        return sum(self._active.values())

    def begin(self, scenario: str) -> None:
        self._active[scenario] = self._active.get(scenario, 0) + 1
        self._busy.set()
        self._free.clear()

    def end(self, scenario: str) -> None:
        self._active[scenario] -= 1
        if not self._active[scenario]:
            del self._active[scenario]
        self.touch(scenario)
        if not self._active:
            self._free.set()
            self._busy.clear()

    def touch(self, scenario: str) -> None:
        """Something came in that is no request: whoever sends it is not idle either."""
        self._last[scenario] = time.monotonic()
        self.stored[scenario] += 1

    def note_stored(self, scenario: str) -> None:
        """Feedback, an instruction: experience that makes nobody busy."""
        self.stored[scenario] += 1

    def idle_s(self, scenario: str) -> float:
        """Seconds since this scenario was last busy; 0 while a request is in flight."""
        if self._active.get(scenario):
            return 0.0
        return time.monotonic() - self._last.get(scenario, self._started)

    async def wait_busy(self) -> None:
        """Return when a live request is in flight."""
        await self._busy.wait()

    async def wait_free(self) -> None:
        """Return when none is."""
        await self._free.wait()

"""How fast tokens come, second by second. Sampled while somebody looks on: see `daemon.api.events`."""

from __future__ import annotations

from collections import deque

INTERVAL_S = 1.0
KEPT = 300
_GAP_S = 5.0  # nobody looked on for so long: what came meanwhile belongs to no second


class Rates:
    """Tokens a second of the last minutes, from counters that only grow until their engine starts anew."""

    def __init__(self) -> None:
        self.generated: deque[float] = deque(maxlen=KEPT)
        self.read: deque[float] = deque(maxlen=KEPT)
        self._at = 0.0
        self._last = (0, 0)

    def sample(self, at: float, generated: int, read: int) -> None:
        """Call it as often as you like; one sample a second is kept.

        Args:
            at: seconds of the monotonic clock.
            generated: tokens of replies since the engine started.
            read: prompt tokens computed since then.
        """
        passed = at - self._at
        if passed < INTERVAL_S:
            return
        if self._at > 0 and passed < _GAP_S:
            for rates, now, before in ((self.generated, generated, self._last[0]), (self.read, read, self._last[1])):
                rates.append(max(0, now - before) / passed)
        elif self._at:
            self.generated.clear()
            self.read.clear()
        self._at, self._last = at, (generated, read)

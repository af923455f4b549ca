"""Waiting on the event loop for what another thread completes, many at a time: one wake-up a commit, not one a record."""

from __future__ import annotations

import asyncio
from collections import deque


class Landing:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._landed: deque[tuple[asyncio.Future[None], BaseException | None]] = deque()
        self._told = False  # the loop will look; set by the other thread, reset by the loop

    def awaited(self) -> Awaited:
        """For one write; the loop waits for its `landed`."""
        return Awaited(self)

    def future(self) -> asyncio.Future[None]:
        return self._loop.create_future()

    def land(self, waiter: asyncio.Future[None], error: BaseException | None) -> None:
        """Any thread may call it."""
        self._landed.append((waiter, error))
        if not self._told:
            self._told = True
            self._loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._told = False  # before looking: what lands from here on tells again
        while self._landed:
            waiter, error = self._landed.popleft()
            if waiter.done():  # cancelled
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)


class Awaited:
    """What the writer tells how a write ended."""

    __slots__ = ("_landing", "landed")

    def __init__(self, landing: Landing) -> None:
        self._landing = landing
        self.landed = landing.future()
        """Done once the write is on disk, or has failed. Whoever waits may be cancelled: the write goes on."""

    def set_result(self, _: int) -> None:
        self._landing.land(self.landed, None)

    def set_exception(self, error: BaseException | None) -> None:
        self._landing.land(self.landed, error)

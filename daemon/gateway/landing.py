"""Waiting on the event loop for what another thread completes, many at a time: one wake-up a commit, not one a record."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future


class Landing:
    """Lives on one event loop."""

    def __init__(self) -> None:
        self._landed: deque[tuple[asyncio.Future[None], Future[int]]] = deque()
        self._told = False  # the loop will look; set by the other thread, reset by the loop

    async def wait(self, future: Future[int]) -> None:
        """Return when `future` is done. Raises what it failed with; the caller's cancellation leaves it as it is."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def landed(done: Future[int]) -> None:
            self._landed.append((waiter, done))
            if not self._told:
                self._told = True
                loop.call_soon_threadsafe(self._tell)

        future.add_done_callback(landed)
        await waiter

    def _tell(self) -> None:
        self._told = False  # before looking: what lands from here on tells again
        while self._landed:
            waiter, done = self._landed.popleft()
            if waiter.done():  # cancelled
                continue
            error = done.exception()
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error)

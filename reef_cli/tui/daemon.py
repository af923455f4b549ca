"""What the app knows of the daemon: its HTTP API, asked in threads so that the screen never waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

from daemon.errors import EngineError, ReefError
from reef_cli.client import Client

if TYPE_CHECKING:
    from daemon.records import JSONObject

_Answer = TypeVar("_Answer")


class Daemon:
    """One home's daemon, found anew after each loss: it may come back at another port.

    All calls raise what `reef_cli.client.Client` raises; `EngineError` or `NotFound` where no daemon answers.
    """

    def __init__(self, connect: Callable[[], Client] = Client) -> None:
        self._connect = connect
        self._client: Client | None = None

    async def get(self, path: str, query: Mapping[str, str | int | None] | None = None) -> JSONObject:
        return await self._ask(lambda client: client.get(path, query))

    async def post(self, path: str, body: JSONObject, scenario: str = "") -> JSONObject:
        return await self._ask(lambda client: client.post(path, body, scenario))

    async def delete(self, path: str) -> JSONObject:
        return await self._ask(lambda client: client.delete(path))

    async def events(self, path: str, after: int = 0) -> AsyncIterator[JSONObject]:
        """Server-sent events as they come, each with its `cursor`, until the daemon ends the stream."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[JSONObject | ReefError | None]()
        client = await asyncio.to_thread(self._connected)
        stopped = threading.Event()

        def read() -> None:
            try:
                for event in client.events(path, after):
                    if stopped.is_set():
                        return
                    loop.call_soon_threadsafe(queue.put_nowait, event)
                loop.call_soon_threadsafe(queue.put_nowait, None)
            except ReefError as error:
                if not stopped.is_set():
                    loop.call_soon_threadsafe(queue.put_nowait, error)

        threading.Thread(target=read, daemon=True).start()
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, ReefError):
                    raise event
                yield event
        finally:
            stopped.set()

    async def _ask(self, ask: Callable[[Client], _Answer]) -> _Answer:
        def call() -> _Answer:
            try:
                return ask(self._connected())
            except EngineError:
                self._client = None
                raise

        return await asyncio.to_thread(call)

    def _connected(self) -> Client:
        if self._client is None:
            self._client = self._connect()
        return self._client

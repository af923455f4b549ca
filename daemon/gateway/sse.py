"""Server-sent events to a client that may be slow, or hang up."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Coroutine, Mapping
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from daemon.gateway.body import ClientGone
from daemon.gateway.errors import json_bytes
from daemon.records import JSONObject

T = TypeVar("T")

KEEP_ALIVE_S = 5.0
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def data_frame(content: JSONObject) -> bytes:
    """One unnamed event with a JSON body."""
    return b"data: " + json_bytes(content) + b"\n\n"


class Frames(ABC):
    """Produces the frames of one stream."""

    @abstractmethod
    def frames(self) -> AsyncGenerator[bytes, None]: ...

    @abstractmethod
    def abort(self) -> None:
        """The client hung up: stop working for it. `frames` then comes to its end by itself."""


class EventStream:
    """An ASGI response that writes frames as they come and notices when the client hangs up."""

    def __init__(self, frames: Frames, headers: Mapping[str, str] | None = None) -> None:
        self._frames = frames
        own = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
        self._headers = [(name.encode(), value.encode()) for name, value in {**own, **(headers or {})}.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        writer = asyncio.create_task(self._write(send))
        watcher = asyncio.create_task(hang_up(receive))
        try:
            await asyncio.wait({writer, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not writer.done():
                self._frames.abort()
            await writer
        finally:
            watcher.cancel()
            writer.cancel()
            self._frames.abort()  # harmless at the end; else the server is stopping, or writing has failed

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async with contextlib.aclosing(self._frames.frames()) as frames:
            async for frame in frames:
                await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def hang_up(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def unless_hung_up(receive: Receive, work: Coroutine[object, None, T]) -> T:
    """What `work` gives; it is cancelled when the client hangs up first.

    Raises:
        ClientGone: it has.
    """
    working = asyncio.create_task(work)
    watcher = asyncio.create_task(hang_up(receive))
    try:
        await asyncio.wait({working, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone("The client hung up.")
        return working.result()
    finally:
        watcher.cancel()
        working.cancel()

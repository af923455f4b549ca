"""Server-sent events to a client that may be slow, or hang up."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping

from starlette.types import Receive, Scope, Send

from daemon.gateway.errors import json_bytes
from daemon.gateway.exchange import Done, Exchange, Failed
from daemon.records import JSONObject

KEEP_ALIVE_S = 5.0
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def data_frame(content: JSONObject) -> bytes:
    """One unnamed event with a JSON body."""
    return b"data: " + json_bytes(content) + b"\n\n"


class Frames(ABC):
    """Produces the frames of one stream."""

    @abstractmethod
    def frames(self) -> AsyncIterator[bytes]: ...

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
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        writer = asyncio.create_task(self._write(send))
        watcher = asyncio.create_task(hang_up(receive))
        try:
            await asyncio.wait({writer, watcher}, return_when=asyncio.FIRST_COMPLETED)
            if not writer.done():
                self._frames.abort()
            await writer
        finally:
            watcher.cancel()
            if not writer.done():  # the server is stopping
                self._frames.abort()
                writer.cancel()

    async def _write(self, send: Send) -> None:
        async for frame in self._frames.frames():
            await send({"type": "http.response.body", "body": frame, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def hang_up(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return


async def finish_or_abort(receive: Receive, exchange: Exchange) -> Done | Failed:
    """Wait for the end of an exchange that is not streamed; a client that hangs up ends it."""
    ended = asyncio.create_task(exchange.finished())
    watcher = asyncio.create_task(hang_up(receive))
    try:
        await asyncio.wait({ended, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not ended.done():
            exchange.abort()
        return await ended
    finally:
        watcher.cancel()
        if not ended.done():
            exchange.abort()
            ended.cancel()

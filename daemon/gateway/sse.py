"""Server-sent events to a client that may be slow, or hang up."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Mapping
from typing import TypeVar

from starlette.types import Receive, Scope, Send

from daemon.errors import ReefError
from daemon.gateway.body import ClientGone
from daemon.gateway.errors import json_bytes
from daemon.records import JSONObject

T = TypeVar("T")

KEEP_ALIVE_S = 5.0
_UNWATCHED_S = 0.25  # a hang-up may be noticed so much later
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"


def data_frame(content: JSONObject) -> bytes:
    """One unnamed event with a JSON body."""
    return b"data: " + json_bytes(content) + b"\n\n"


class Stoppable(ABC):
    """Works for a client."""

    @abstractmethod
    def abort(self) -> None:
        """The client hung up: stop working for it. What is awaited then comes to its end by itself."""


class Frames(Stoppable):
    """Produces the frames of one stream."""

    @abstractmethod
    def frames(self) -> AsyncGenerator[bytes, None]: ...


class EventStream:
    """An ASGI response that writes frames as they come and notices when the client hangs up."""

    def __init__(self, frames: Frames, headers: Mapping[str, str] | None = None) -> None:
        self._frames = frames
        own = {"content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache", "x-accel-buffering": "no"}
        self._headers = [(name.encode(), value.encode()) for name, value in {**own, **(headers or {})}.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        watcher = asyncio.create_task(hang_up(receive))
        watcher.add_done_callback(lambda _: self._frames.abort())
        try:
            await self._write(send)
        finally:
            watcher.cancel()
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


async def unless_hung_up(receive: Receive, work: Awaitable[T], worker: Stoppable | None = None) -> T:
    """What `work` gives. When the client hangs up first, `worker` is told; where there is none, `work` is cancelled. Most work is done
    before the client is watched at all.

    Raises:
        ClientGone: it has.
    """
    task: _ThisTask | None = None
    if worker is None:
        worker = task = _ThisTask()
    watch = _Watch(receive, worker)
    try:
        found = await work
    except asyncio.CancelledError:
        if watch.gone and task is not None and task.uncancelled():
            raise ClientGone("The client hung up.") from None
        raise
    except ReefError:
        if watch.gone:
            raise ClientGone("The client hung up.") from None
        raise
    finally:
        watch.end()
    if watch.gone:
        raise ClientGone("The client hung up.")
    return found


class _ThisTask(Stoppable):
    """The running task; `abort` cancels it."""

    def __init__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("there is no task to watch for")
        self._task = task
        self._before = task.cancelling()
        self._aborted = False

    def abort(self) -> None:
        self._aborted = True
        self._task.cancel()

    def uncancelled(self) -> bool:
        """Whether the cancellation that has just arrived is ours alone."""
        return self._aborted and self._task.uncancel() <= self._before


class _Watch:
    """Tells the worker once the client has hung up."""

    def __init__(self, receive: Receive, worker: Stoppable) -> None:
        self.gone = False
        self._worker = worker
        self._receive = receive
        self._ended = False
        self._watcher: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(_UNWATCHED_S, self._begin)

    def end(self) -> None:
        self._ended = True  # `_left` may be on its way already
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin(self) -> None:
        self._watcher = asyncio.create_task(hang_up(self._receive))
        self._watcher.add_done_callback(self._left)

    def _left(self, watcher: asyncio.Task[None]) -> None:
        if not self._ended:
            self.gone = True
            self._worker.abort()

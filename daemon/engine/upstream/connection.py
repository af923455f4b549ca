"""One connection to another server: HTTP/1.1, one request at a time, its answer read as it comes and bounded in every part.

It does what a pooled client of one server needs and no more: no redirects, cookies, proxies, compression or retries. That makes it
several times cheaper than a general client, and every request of an upstream engine pays for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import httptools

from daemon.engine.upstream.errors import broke, too_late
from daemon.errors import EngineError

_SILENT_LIMIT_BYTES = 128 << 10
"""What may come without a byte of the body: the head, trailers, whatever stands between two chunks."""
_HELD_BYTES = 256 << 10  # once so much waits to be read, no more is taken from the server
_NO_BODY = (204, 304)


class Connection(asyncio.Protocol):
    """Made by `Client`. `ask`, then read `status`, `headers` and the body, then give it back."""

    def __init__(self, peer: str) -> None:
        """`peer`: the server's address, for sentences."""
        self.status = 0
        self.headers: dict[str, str] = {}  # lower-case name → value; of several the last
        self.idle_since = 0.0  # seconds of the loop's clock
        self._peer = peer
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport
        self._parser: httptools.HttpResponseParser
        self._blocks: list[bytes] = []
        self._held_bytes = self._silent_bytes = self._unsent_bytes = 0
        self._moved_at = 0.0  # when something last came, or went
        self._asked = self._has_head = self._ended = self._keeps = False
        self._informs = self._to_the_end = self._paused = False
        self._failure: EngineError | None = None
        self._waiter: asyncio.Future[None] | None = None

    @property
    def content_type(self) -> str:
        """Without its parameters; empty if there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def reusable(self) -> bool:
        """Whether the answer is whole and another request may follow it."""
        return self._keeps and self._ended and self._failure is None and not self._transport.is_closing() and not self._unsent()

    @property
    def open(self) -> bool:
        return self._failure is None and not self._transport.is_closing()

    async def ask(self, head: bytes, body: bytes) -> None:
        """Send a request; return when the head of its answer is there. Raises EngineError: it broke, or nothing came in time."""
        self.status, self.headers = 0, {}
        self._blocks.clear()
        self._held_bytes = self._silent_bytes = 0
        self._has_head = self._ended = self._keeps = self._informs = self._to_the_end = False
        self._parser = httptools.HttpResponseParser(self)
        self._asked = True
        self._moved_at = self._loop.time()
        self._transport.writelines((head, body))
        while not self._has_head:
            await self._more()

    async def whole(self, limit_bytes: int) -> bytes | None:
        """The body; None where it is longer than that. Raises EngineError as `ask` does."""
        size = self._held_bytes
        parts = self._taken()
        while not self._ended and size <= limit_bytes:
            await self._more()
            size += self._held_bytes
            parts += self._taken()
        return b"".join(parts) if size <= limit_bytes else None

    async def blocks(self) -> AsyncGenerator[bytes, None]:
        """The body as it comes, all that there is at a time. Raises EngineError as `ask` does."""
        while True:
            if self._blocks:
                yield b"".join(self._taken())
            elif self._ended:
                return
            else:
                await self._more()

    def look(self, now: float, limit_s: float) -> None:
        """End the request if nothing has come or gone for so long. A reader that does not keep up is no fault of the server's."""
        unsent = self._unsent()
        if self._blocks or unsent != self._unsent_bytes:
            self._unsent_bytes, self._moved_at = unsent, now
        elif now - self._moved_at > limit_s:
            self._fail(too_late(self._peer))

    def close(self) -> None:
        self._fail(broke(self._peer))

    # asyncio's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # of a stream; uvloop's has no base class
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._asked or self._ended:  # said without being asked
            self._keeps = False
            self._transport.abort()
            return
        self._moved_at = self._loop.time()
        self._silent_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._fail(broke(self._peer))
            return
        if self._silent_bytes > _SILENT_LIMIT_BYTES and not self._ended:
            self._fail(broke(self._peer))
            return
        if self._held_bytes > _HELD_BYTES and not self._paused and not self._ended:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, error: Exception | None) -> None:
        if self._to_the_end and error is None and self._failure is None:
            self._ended = True
            self._wake()
        elif not self._ended:
            self._fail(broke(self._peer))

    # The parser's side

    def on_message_begin(self) -> None:
        if self._ended:  # an answer to nothing, in the same breath
            self._keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else it is a trailer, or belongs to nothing
            self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._ended:
            return
        status = self._parser.get_status_code()
        if status < 100:
            self._fail(broke(self._peer))
            return
        self._informs = status < 200
        if self._informs:  # the answer itself comes behind it
            self.headers.clear()
            return
        self.status, self._has_head = status, True
        counted = "content-length" in self.headers or "chunked" in self.headers.get("transfer-encoding", "").lower()
        self._to_the_end = not counted and status not in _NO_BODY

    def on_body(self, body: bytes) -> None:
        if self._has_head and not self._ended:  # before the head it is of nothing that was asked
            self._silent_bytes = 0
            self._held_bytes += len(body)
            self._blocks.append(body)

    def on_message_complete(self) -> None:
        if self._informs:
            self._informs = False
        elif not self._ended:
            self._ended, self._keeps = True, self._parser.should_keep_alive()

    # Ours

    async def _more(self) -> None:
        """Return when something has changed. Raises EngineError if it broke and nothing is left to be read."""
        if self._failure is None:
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        if self._failure is not None and not self._blocks:
            raise self._failure

    def _taken(self) -> list[bytes]:
        found, self._blocks, self._held_bytes = self._blocks, [], 0
        if self._paused:
            self._paused = False
            self._moved_at = self._loop.time()
            self._transport.resume_reading()
        return found

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, failure: EngineError) -> None:
        self._failure = self._failure or failure
        self._transport.abort()
        self._wake()

    def _unsent(self) -> int:
        return self._transport.get_write_buffer_size()

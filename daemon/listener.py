"""The listening socket and the HTTP server on it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import resource
import socket
import sys
from collections.abc import Iterator
from typing import cast

import uvicorn
from starlette.types import ASGIApp
from uvicorn._types import ASGISendEvent
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from daemon.config import ServerConfig
from daemon.errors import ConfigError

_KEEP_ALIVE_S = 75
_DRAIN_S = 15
HEAD_LIMIT_BYTES = 128 << 10
"""Request line and headers. The middleware refuses less than that with a sentence; this bounds what is read before it can."""
ARRIVED = "reef.arrived"
"""In a request's scope: what gives its body where that has come already, as it does with its head where it is short."""
HEAD_TIMEOUT_S = 30.0
STALLED_S = 120.0
"""A client that takes nothing of its answer for so long is given up: what it was to read would be kept for ever."""
CONNECTION_LIMIT = 1024
_FILES = 8192
_KEEP_ALIVE_PROBE_S = 60


def bind(config: ServerConfig) -> socket.socket:
    """Take the port; nothing is answered before the server runs on it.

    Raises:
        ConfigError: the port is in use, needs more rights, or the address is not this machine's.
    """
    where = f"{config.host}:{config.port}"
    try:
        family = socket.getaddrinfo(config.host, config.port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise ConfigError(f"Cannot listen on {where}: {error.strerror}.", "Set server.host to an address of this machine.") from error
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((config.host, config.port))
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            hint = "Stop what listens there, or choose another: --port N, or server.port in the configuration."
            raise ConfigError(f"The port {config.port} on {config.host} is in use.", hint) from error
        raise ConfigError(f"Cannot listen on {where}: {error.strerror}.", "Choose another with server.host and server.port.") from error
    listener.set_inheritable(False)
    return listener


def raise_file_limit() -> None:
    """Each connection is an open file, and many systems start a process with 1024: as many more as it may have, within reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some systems have a lower bound of their own
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class _Answer:
    """Writes the answer to one request. Its head goes out with the first part of its body: one write, for which the client wakes up once.
    uvicorn writes them apart, and looks through each header for what ours cannot hold."""

    def __init__(self, cycle: RequestResponseCycle, loop: asyncio.AbstractEventLoop) -> None:
        self._cycle = cycle
        self._loop = loop
        self._head = b""  # not written yet

    def arrived(self) -> bytes | None:
        """The request's body, if all of it has come before anybody has asked for it; it is given once. None: `receive` has it."""
        cycle = self._cycle
        if cycle.more_body or cycle.disconnected or cycle.response_started:
            return None
        body, cycle.body = bytes(cycle.body), bytearray()
        cycle.message_event.clear()
        return body

    async def send(self, message: ASGISendEvent) -> None:
        """As ASGI has it. Raises RuntimeError for what does not follow from what was sent before."""
        cycle = self._cycle
        if cycle.flow.write_paused and not cycle.disconnected:
            await cycle.flow.drain()
        if cycle.disconnected:
            return
        if message["type"] == "http.response.start" and not cycle.response_started:
            self._begin(message["status"], list(message.get("headers", ())))
        elif message["type"] == "http.response.body" and cycle.response_started and not cycle.response_complete:
            self._go_on(message.get("body", b""), more=message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} does not follow what was sent before")

    def _begin(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        cycle = self._cycle
        cycle.response_started, cycle.waiting_for_100_continue = True, False
        parts, closes = [STATUS_LINE[status]], False
        for name, value in headers:
            if name == b"content-length":
                cycle.expected_content_length, cycle.chunked_encoding = int(value), False
            elif name == b"connection":
                closes = value == b"close"
            parts += (name, b": ", value, b"\r\n")
        lines = len(headers) + 2
        if closes:
            cycle.keep_alive = False
        elif not cycle.keep_alive:
            parts.append(b"connection: close\r\n")
            lines += 1
        if cycle.chunked_encoding is None and cycle.scope["method"] != "HEAD" and status not in (204, 304):
            cycle.chunked_encoding = True
            lines += 1
            parts.append(b"transfer-encoding: chunked\r\n")
        parts.append(b"\r\n")
        self._head = b"".join(parts)
        if self._head.count(b"\n") != lines:
            raise RuntimeError("a header holds a line break")
        self._loop.call_soon(self._flush)  # a body that begins later does not keep it back

    def _go_on(self, body: bytes, *, more: bool) -> None:
        cycle, parts = self._cycle, [self._head]
        self._head = b""
        if cycle.scope["method"] == "HEAD":
            cycle.expected_content_length = 0
        elif cycle.chunked_encoding:
            parts += (b"%x\r\n" % len(body), body, b"\r\n") if body else ()
            if not more:
                parts.append(b"0\r\n\r\n")
        else:
            cycle.expected_content_length -= len(body)
            parts.append(body)
        if cycle.expected_content_length < 0 or (cycle.expected_content_length and not more):
            raise RuntimeError("the body is not as long as its head says")
        cycle.transport.write(b"".join(parts))
        if not more:
            cycle.response_complete = True
            cycle.message_event.set()
            if not cycle.keep_alive:
                cycle.transport.close()
            cycle.on_response()

    def _flush(self) -> None:
        if self._head and not self._cycle.disconnected and not self._cycle.transport.is_closing():
            self._cycle.transport.write(self._head)
        self._head = b""


class BoundedHttp(HttpToolsProtocol):
    """uvicorn's HTTP/1.1, which by itself lets a client send headers without end, or never finish them: no token is asked for by then."""

    _reading_head = True
    _head_bytes = 0
    _head_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn declares it
        super().connection_made(transport)
        self._answering: list[RequestResponseCycle] = []  # requests after which the client has sent another without waiting
        _probe_if_idle(transport)
        if len(self.connections) > CONNECTION_LIMIT:
            transport.write(b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            transport.close()
            return
        self._begin_head()
        self._time_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._reading_head:  # so all of it belonged to the request line and the headers, or to a request before
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_LIMIT_BYTES:
                self._refuse("431 Request Header Fields Too Large")
            elif self._head_timer is None:  # most heads come in one piece, and need none
                self._time_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._reading_head:
            return  # a trailer: nobody here asks for one, and there could be any number
        name = name.lower()
        if name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stall_timer is None:
            self._stall_timer = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._forget_stall()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._reading_head:
            self._begin_head()

    def on_headers_complete(self) -> None:
        self._end_head()
        if self.cycle is not None and not self.cycle.response_complete:
            self._answering.append(self.cycle)  # uvicorn remembers the newest request only
        super().on_headers_complete()
        answer = _Answer(self.cycle, self.loop)
        self.cycle.send = answer.send  # type: ignore[method-assign]  # the app has not been started yet
        cast(dict[str, object], self.scope)[ARRIVED] = answer.arrived

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_head()
        self._forget_stall()
        self.pipeline.clear()  # nobody waits for these answers any more
        for cycle in self._answering:
            cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def _forget_stall(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _begin_head(self) -> None:
        self._reading_head, self._head_bytes = True, 0

    def _time_head(self) -> None:
        self._head_timer = self.loop.call_later(HEAD_TIMEOUT_S, self._refuse, "408 Request Timeout")

    def _end_head(self) -> None:
        self._reading_head = False
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _refuse(self, status: str) -> None:
        self._end_head()
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # else the answer to the request before is on its way
            self.transport.write(f"HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode())
        self.transport.close()


def _probe_if_idle(transport: asyncio.Transport) -> None:
    """Let the kernel notice a client that is gone without a word, as after a power cut or a pulled cable."""
    found = transport.get_extra_info("socket")
    if found is None:
        return
    with contextlib.suppress(OSError):  # it has closed already
        found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if sys.platform == "linux":
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _KEEP_ALIVE_PROBE_S)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


class Server(uvicorn.Server):
    """uvicorn, but signals are ours: uvicorn would let them end the process before the store is closed.

    It also looks ten times a second whether it should end, for which an idle laptop would wake up: here it is told.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        self._end = asyncio.Event()
        super().__init__(config)

    @property
    def should_exit(self) -> bool:
        """Set it on the event loop."""
        return self._end.is_set()

    @should_exit.setter
    def should_exit(self, value: bool) -> None:
        if value:
            self._end.set()

    async def main_loop(self) -> None:
        await self._end.wait()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(app: ASGIApp) -> Server:
    return Server(
        uvicorn.Config(
            app,
            loop="uvloop",
            http=BoundedHttp,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_DRAIN_S,
        )
    )

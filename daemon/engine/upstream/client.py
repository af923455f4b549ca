"""A pooled HTTP client of one server: only the URL that the user named is called, without proxies and without following redirects."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import aiohappyeyeballs

from daemon.engine.upstream.connection import Connection
from daemon.engine.upstream.errors import broke, distrusted, unreachable

_SECOND_ADDRESS_S = 0.25  # a name may have an address that leads nowhere, as IPv6 often does: the next is tried beside it
_LOOK_S = 1.0


class Client:
    """Lives on one event loop. At most as many connections as requests at a time; the newest is used again first."""

    def __init__(self, url: str, *, connect_timeout_s: float, read_timeout_s: float, idle_s: float) -> None:
        """
        Args:
            url: the base of all paths.
            read_timeout_s: between two pieces of an answer, before the first as well.
            idle_s: an unused connection is kept for so long.

        Raises:
            Unreachable: the URL leads nowhere.
        """
        self._url = url
        self._connect_timeout_s, self._read_timeout_s, self._idle_s = connect_timeout_s, read_timeout_s, idle_s
        try:
            parts = urlsplit(url)
            secure = parts.scheme == "https"
            self._host = (parts.hostname or "").encode("idna").decode()
            self._port = parts.port or (443 if secure else 80)
        except ValueError as error:
            raise unreachable(url) from error
        self._base = parts.path.rstrip("/")
        self._named = parts.netloc.rpartition("@")[2] if parts.netloc.isascii() else self._host
        self._tls = ssl.create_default_context() if secure else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["http/1.1"])
        self._idle: list[Connection] = []
        self._busy: set[Connection] = set()
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> Connection:
        """Send a request, once; the answer's head is there. Give the connection back when its body is read, or is not wanted.

        Raises:
            Unreachable: there is no connection. EngineError: it broke, or nothing came in time.
        """
        head = self._head(method, path, headers, len(body))
        connection = self._unused() or await self._connected()
        if self._closed:  # meanwhile: nobody would look after it
            connection.close()
            raise broke(self._url)
        self._busy.add(connection)
        if self._timer is None:
            self._timer = self._loop.call_later(self._look_s, self._look)
        try:
            await connection.ask(head, body)
        except BaseException:
            self.give_back(connection)
            raise
        return connection

    def give_back(self, connection: Connection) -> None:
        """Without its answer being read to the end, it is closed."""
        self._busy.discard(connection)
        if connection.reusable:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    def close(self) -> None:
        """What is under way breaks off."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
        for connection in (*self._idle, *self._busy):
            connection.close()
        self._idle.clear()

    @property
    def _look_s(self) -> float:
        return min(_LOOK_S, self._read_timeout_s / 4)

    def _unused(self) -> Connection | None:
        latest = self._loop.time() - self._idle_s
        while self._idle:
            connection = self._idle.pop()
            if connection.open and connection.idle_since > latest:
                return connection
            connection.close()
        return None

    async def _connected(self) -> Connection:
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                found = await self._loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
                taken = await aiohappyeyeballs.start_connection(found, happy_eyeballs_delay=_SECOND_ADDRESS_S, loop=self._loop)
                name = self._host if self._tls is not None else None
                made = await self._loop.create_connection(lambda: Connection(self._url), sock=taken, ssl=self._tls, server_hostname=name)
        except ssl.SSLError as error:
            reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else "it does not speak TLS"
            raise distrusted(self._url, reason) from error
        except (OSError, UnicodeError) as error:  # what takes too long is one too
            raise unreachable(self._url) from error
        return made[1]

    def _head(self, method: str, path: str, headers: Mapping[str, str], length: int) -> bytes:
        lines = [f"{method} {self._base}/{path} HTTP/1.1", f"host: {self._named}", "accept: */*", "accept-encoding: identity"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["user-agent: reef", f"content-length: {length}", "", ""]
        head = "\r\n".join(lines).encode("latin-1", "replace")
        if head.count(b"\n") != len(lines) - 1:
            raise broke(self._url)
        return head

    def _look(self) -> None:
        """End what takes too long, and close what nobody has used."""
        now = self._loop.time()
        for connection in tuple(self._busy):
            connection.look(now, self._read_timeout_s)
        kept = [connection for connection in self._idle if connection.open and connection.idle_since > now - self._idle_s]
        for connection in set(self._idle).difference(kept):
            connection.close()
        self._idle = kept
        self._timer = self._loop.call_later(self._look_s, self._look) if kept or self._busy else None

"""What a client reads of an answer, byte for byte, and when."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.config import ServerConfig
from daemon.listener import ARRIVED, bind, make_server
from tests.daemon.running import until

Ask = Callable[[bytes], Awaitable[bytes]]
HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"


@contextlib.asynccontextmanager
async def served(app: ASGIApp) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection to a server of `app`."""
    with contextlib.closing(bind(ServerConfig(port=0))) as listening:
        server = make_server(app)
        task = asyncio.create_task(server.serve(sockets=[listening]))
        await until(lambda: server.started)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            yield reader, writer
        finally:
            writer.close()
            server.should_exit = True
            await task


def saying(*messages: Message, pause_after: int = -1, go_on: asyncio.Event | None = None) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for place, message in enumerate(messages):
            await send(message)
            if place == pause_after and go_on is not None:
                await go_on.wait()

    return app


def start(*headers: tuple[bytes, bytes], status: int = 200) -> Message:
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def body(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


LENGTH = (b"content-length", b"2")
CLOSE = (b"connection", b"close")


@pytest.mark.parametrize(
    ("asked", "said", "expected"),
    [
        (b"GET / HTTP/1.1", [start(LENGTH, CLOSE), body(b"hi")], b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"),
        (b"HEAD / HTTP/1.1", [start(LENGTH, CLOSE), body(b"hi")], b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n"),
        (b"GET / HTTP/1.1", [start(CLOSE, status=204), body(b"")], b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"),
        (
            b"GET / HTTP/1.1",
            [start(CLOSE), body(b"he", more=True), body(b"", more=True), body(b"y")],
            b"HTTP/1.1 200 OK\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhe\r\n1\r\ny\r\n0\r\n\r\n",
        ),
        (b"GET / HTTP/1.0", [start(LENGTH), body(b"hi")], b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi"),
    ],
)
async def test_an_answer_on_the_wire(asked: bytes, said: list[Message], expected: bytes) -> None:
    async with served(saying(*said)) as (reader, writer):
        writer.write(asked + b"\r\nhost: x\r\n\r\n")
        assert await asyncio.wait_for(reader.read(), 5) == expected


async def test_a_head_is_not_kept_back_for_a_body_that_begins_later() -> None:
    later = asyncio.Event()
    async with served(saying(start(), body(b"x"), pause_after=0, go_on=later)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)).startswith(b"HTTP/1.1 200")
        later.set()
        assert await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 5) == b"1\r\nx\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    "said",
    [
        [start((b"x-name", b"a\r\nx-other: b"), LENGTH), body(b"hi")],
        [start(LENGTH), body(b"hi there")],
        [start(LENGTH), body(b"h")],
        [body(b"hi")],
    ],
)
async def test_an_answer_that_would_break_the_wire_is_not_sent(said: list[Message], caplog: pytest.LogCaptureFixture) -> None:
    async with served(saying(*said)) as (reader, writer):
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        found = await asyncio.wait_for(reader.read(), 5)
        assert b"x-other" not in found and not found.startswith(b"HTTP/1.1 200")


async def test_a_body_is_there_at_once_where_it_came_with_its_head_and_is_waited_for_where_not() -> None:
    seen: list[bytes | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope[ARRIVED]())
        if seen[-1] is None:
            seen.append((await receive())["body"])
        await send(start(LENGTH))
        await send(body(b"ok"))

    async with served(app) as (reader, writer):
        for first, second in ((HEAD % 2 + b"hi", b""), (HEAD % 2, b"hi"), (HEAD % 2 + b"hi", b"")):
            writer.write(first)
            await asyncio.sleep(0.05)
            writer.write(second)
            await asyncio.wait_for(reader.readuntil(b"ok"), 5)
    assert seen == [b"hi", None, b"hi", b"hi"]

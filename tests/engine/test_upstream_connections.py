"""Connections to another server are kept and used again; a request that may have arrived is never sent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from daemon.config import UpstreamConfig
from daemon.engine.base import Engine
from daemon.engine.upstream.engine import UpstreamEngine
from daemon.errors import EngineError
from tests.engine.contract import collect, request

REPLY = b'data: {"choices":[{"delta":{"content":"hi"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
MODELS = b'{"data":[]}'


class Server:
    """Keeps connections, until it is told to close one."""

    def __init__(self) -> None:
        self.connections = 0
        self.requests = 0  # for replies
        self.deaf = False  # take a request and hang up
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.writers.append(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length or b"0"))
                asked = head.startswith(b"post")
                self.requests += asked
                if asked and self.deaf:
                    return
                kind, body = (b"text/event-stream", REPLY) if asked else (b"application/json", MODELS)
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n%s" % (kind, len(body), body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, Engine]]:
    scripted = Server()
    listening = await asyncio.start_server(scripted.serve, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    engine = UpstreamEngine(UpstreamConfig(kind="upstream", url=url, model="m"))
    await engine.start()
    yield scripted, engine
    await engine.stop()
    listening.close()


async def test_one_connection_serves_requests_one_after_another(server: tuple[Server, Engine]) -> None:
    scripted, engine = server
    for _ in range(5):
        assert (await collect(engine, request()))[0] == "hi"
    assert scripted.connections == 1


async def test_a_connection_that_the_server_has_closed_is_not_used_again(server: tuple[Server, Engine]) -> None:
    scripted, engine = server
    for closing in range(1, 4):
        await collect(engine, request())
        for writer in scripted.writers:
            writer.close()
        await asyncio.sleep(0.01)
        assert (await collect(engine, request()))[0] == "hi"
        assert scripted.requests == 2 * closing


async def test_a_request_that_may_have_arrived_is_sent_once(server: tuple[Server, Engine]) -> None:
    scripted, engine = server
    await collect(engine, request())
    scripted.deaf = True
    with pytest.raises(EngineError, match="broke"):
        await collect(engine, request())
    assert scripted.requests == 2


async def test_the_environments_proxies_are_not_used(server: tuple[Server, Engine], monkeypatch: pytest.MonkeyPatch) -> None:
    scripted, engine = server
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    assert (await collect(engine, request()))[0] == "hi"
    assert scripted.requests == 1

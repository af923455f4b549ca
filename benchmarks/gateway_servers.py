"""The processes around the gateway's benchmark: the scripted upstream, and the bare durable proxy that is the reference.

Run by benchmarks/gateway.py: python -m benchmarks.gateway_servers upstream|bare|bare-httpx PORT [UPSTREAM_URL DATABASE]

The bare proxy is the least that makes the same promise on the same server stack (Starlette, uvicorn with httptools and uvloop): it reads
the body, sends it on over a pooled connection, stores request and reply as one row of one table through one writer thread with group
commit (WAL, synchronous=FULL), and gives the receipt once the row is on disk. It checks nothing, parses nothing and knows no sessions.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import sys
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator
from concurrent.futures import Future
from pathlib import Path

import aiohttp
import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

PIECES = 24
_WHOLE = (
    b'{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"scripted","choices":[{"index":0,"message":{"role":"assistant",'
    b'"content":"' + b"done and done " * PIECES + b'"},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":700,"completion_tokens":24,"total_tokens":724}}'
)
_HEAD = b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"scripted","choices":['
_PIECE = _HEAD + b'{"index":0,"delta":{"content":"done and done "},"finish_reason":null}]}\n\n'
_LAST = _HEAD + b'{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
_DONE = b"data: [DONE]\n\n"


def upstream_app() -> Starlette:
    """Answers at once; a stream's pieces come one a turn of the loop, in one chunk each."""

    async def complete(request: Request) -> Response:
        body = await request.body()
        if b'"stream":true' not in body:
            return Response(_WHOLE, media_type="application/json")

        async def frames() -> AsyncIterator[bytes]:
            for _ in range(PIECES):
                yield _PIECE
                await asyncio.sleep(0.002)
            yield _LAST + _DONE

        return StreamingResponse(frames(), media_type="text/event-stream")

    async def models(request: Request) -> Response:
        return Response(b'{"data":[{"id":"scripted","context_length":1000000}]}', media_type="application/json")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"]), Route("/v1/models", models)])


class _Writer:
    """One table, one thread; whatever waits while a commit is on its way goes into the next one."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._queue: queue.SimpleQueue[tuple[str, bytes, bytes, Future[None]]] = queue.SimpleQueue()
        threading.Thread(target=self._run, daemon=True).start()

    def store(self, receipt: str, request: bytes, reply: bytes) -> Future[None]:
        future: Future[None] = Future()
        self._queue.put((receipt, request, reply, future))
        return future

    def _run(self) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None)
        for pragma in ("journal_mode = WAL", "synchronous = FULL"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute("CREATE TABLE records (id TEXT PRIMARY KEY, request BLOB, reply BLOB)")
        while True:
            batch = [self._queue.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    batch.append(self._queue.get_nowait())
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO records VALUES (?, ?, ?)", [row[:3] for row in batch])
            connection.execute("COMMIT")
            for *_, future in batch:
                future.set_result(None)


class _Client(ABC):
    """A pooled client of the upstream."""

    @abstractmethod
    def post(self, body: bytes) -> contextlib.AbstractAsyncContextManager[tuple[str, AsyncIterator[bytes]]]:
        """The reply's content type and its blocks as they come."""


class _Aiohttp(_Client):
    def __init__(self, url: str) -> None:
        self._url = url
        self._session: aiohttp.ClientSession | None = None

    @contextlib.asynccontextmanager
    async def post(self, body: bytes) -> AsyncGenerator[tuple[str, AsyncIterator[bytes]], None]:
        if self._session is None:
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=320), cookie_jar=aiohttp.DummyCookieJar())
        async with self._session.post(self._url, data=body, headers={"content-type": "application/json"}) as answer:
            yield answer.content_type, answer.content.iter_any()


class _Httpx(_Client):
    def __init__(self, url: str) -> None:
        self._url = url
        self._client = httpx.AsyncClient(limits=httpx.Limits(max_connections=320), trust_env=False, timeout=60)

    @contextlib.asynccontextmanager
    async def post(self, body: bytes) -> AsyncGenerator[tuple[str, AsyncIterator[bytes]], None]:
        headers = {"content-type": "application/json"}
        async with self._client.stream("POST", self._url, content=body, headers=headers) as answer:
            yield answer.headers["content-type"].partition(";")[0], answer.aiter_bytes()


def bare_app(client: _Client, writer: _Writer) -> Starlette:
    async def complete(request: Request) -> Response:
        body = await request.body()
        receipt = uuid.uuid4().hex
        stack = contextlib.AsyncExitStack()
        kind, blocks = await stack.enter_async_context(client.post(body))
        if kind != "text/event-stream":
            async with stack:
                reply = b"".join([block async for block in blocks])
            await asyncio.wrap_future(writer.store(receipt, body, reply))
            return Response(reply, media_type="application/json", headers={"x-receipt": receipt})

        async def frames() -> AsyncIterator[bytes]:
            parts: list[bytes] = []
            async with stack:
                async for block in blocks:
                    parts.append(block)
                    ends = block.endswith(_DONE)
                    yield block.removesuffix(_DONE) if ends else block
            await asyncio.wrap_future(writer.store(receipt, body, b"".join(parts)))
            yield b'data: {"choices":[],"receipt":"%s"}\n\n' % receipt.encode() + _DONE

        return StreamingResponse(frames(), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", complete, methods=["POST"])])


def main(kind: str, port: int, url: str = "", database: str = "") -> None:
    if kind == "upstream":
        app = upstream_app()
    else:
        Path(database).unlink(missing_ok=True)
        address = f"{url}/chat/completions"
        app = bare_app(_Httpx(address) if kind == "bare-httpx" else _Aiohttp(address), _Writer(database))
    options = {"loop": "uvloop", "http": "httptools", "ws": "none", "lifespan": "off", "server_header": False, "date_header": False}
    uvicorn.run(app, host="127.0.0.1", port=port, access_log=False, log_level="warning", timeout_keep_alive=75, **options)  # type: ignore[arg-type]


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])

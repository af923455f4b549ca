"""Clients that hang up at any moment, in any way: while they send, while the prompt waits, between pieces, after the end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import logging
import random
import socket
import struct
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from daemon.engine.base import Event, GenerateRequest, Progress
from daemon.records import Inference, Status
from tests.daemon.running import Running, running, until
from tests.engine.fake import ScriptedEngine

CLIENTS, AT_ONCE = 120, 24
RESET = struct.pack("ii", 1, 0)  # the kernel sends a reset in place of an orderly end


class Moody(ScriptedEngine):
    """Waits before it answers, tells of a prompt being read, and takes its time to let go of what was aborted."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__({"long": "word " * 4000}, token_delay_s=0.005, streams=60)  # seconds longer than the test waits
        self._rng = rng

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(self._rng.random() * 0.03)
        if self._rng.random() < 0.3:
            yield Progress(1, 2)
            await asyncio.sleep(self._rng.random() * 0.02)
        try:
            async with contextlib.aclosing(super().generate(request)) as events:
                async for event in events:
                    yield event
        finally:
            await asyncio.sleep(self._rng.random() * 0.01)


def a_request(daemon: Running, rng: random.Random) -> bytes:
    common = {"model": "scripted", "n": rng.choice([1, 1, 2, 8]), "stream": rng.random() < 0.6, "max_tokens": 30_000}
    asked = rng.choice(["long", "long", "brief"])
    path, body = rng.choice(
        [
            ("chat/completions", {**common, "messages": [{"role": "user", "content": asked}], "logprobs": rng.random() < 0.3}),
            ("completions", {**common, "prompt": rng.choice([asked, ["brief", asked]])}),
            ("embeddings", {"model": "scripted", "input": ["a", "b"]}),
        ]
    )
    data = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nContent-Type: application/json\r\n"
    token = f"Authorization: {daemon.client.headers['authorization']}\r\nContent-Length: {len(data)}\r\n\r\n"
    return (head + token).encode() + data


async def a_client(daemon: Running, rng: random.Random) -> None:
    sent = a_request(daemon, rng)
    how = rng.choice(["sending", "waiting", "reading", "resetting", "half closing", "sending two"])
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    with contextlib.suppress(ConnectionError, TimeoutError):
        writer.write(sent[: rng.randrange(len(sent))] if how == "sending" else sent * (2 if how == "sending two" else 1))
        await writer.drain()
        if how in ("reading", "resetting"):
            async with asyncio.timeout(0.3):
                await reader.readexactly(rng.randrange(1, 3000))
        elif how == "half closing":
            writer.write_eof()
        if how == "resetting":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        await asyncio.sleep(rng.random() * 0.05)
    writer.close()


async def test_nothing_is_left_behind(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rng = random.Random(8)
    engine = Moody(rng)
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    async with running(tmp_path, engine) as daemon:
        room = asyncio.Semaphore(AT_ONCE)

        async def one() -> None:
            async with room:
                await a_client(daemon, rng)

        await asyncio.gather(*(one() for _ in range(CLIENTS)))
        serving = daemon.services.serving
        await until(lambda: engine.running == 0 and serving.activity.in_flight == 0 and not serving._leases)
        items = daemon.services.reader.items("default", limit=10_000, kind="inference")
        found = {item.status for item in items if isinstance(item, Inference)}
        assert {Status.OK, Status.ABORTED} <= found
        assert (await daemon.chat("still here")).status_code == 200
    gc.collect()  # tasks whose failure nobody looked at tell of it when they go
    assert unhandled == []
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []

"""A client that sends headers without end, or never finishes them, is shown the door; it needed no token to get that far."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from daemon import listener
from tests.daemon.running import running, until
from tests.engine.fake import ScriptedEngine


async def test_headers_without_end_are_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        _, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\nx-long: ")
        sent = 0
        with pytest.raises(ConnectionError):
            while sent < 20 << 20:
                writer.write(b"a" * 65536)
                sent += 65536
                await writer.drain()
                await asyncio.sleep(0.001)
        assert sent < 4 << 20, "what the kernel holds, not what the client sends"
        assert (await daemon.chat("hello")).status_code == 200


async def test_headers_that_never_end_close_the_connection_and_a_slow_reply_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "HEAD_TIMEOUT_S", 0.3)
    async with running(tmp_path) as daemon:
        for beginning in (b"", b"GET /healthz HTTP/1.1\r\n"):
            reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            writer.write(beginning)
            assert b" 408 " in await asyncio.wait_for(reader.read(), 5)
            writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
        request = f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n\r\n".encode()
        for _ in range(2):  # the connection stays open between requests for longer than headers may take
            writer.write(request)
            assert b" 200 " in await asyncio.wait_for(reader.readline(), 5)
            while await reader.readline() != b"\r\n":
                pass
            await reader.read(100)
            await asyncio.sleep(0.5)
        writer.close()


async def test_hanging_up_ends_a_request_that_another_was_sent_after(tmp_path: Path) -> None:
    """A client need not wait for an answer before it sends the next request; when it goes, all of them end."""
    engine = ScriptedEngine({"long": "word " * 2000}, token_delay_s=0.01)
    async with running(tmp_path, engine) as daemon:
        for streaming in ("true", "false"):
            _, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
            body = f'{{"model":"scripted","stream":{streaming},"messages":[{{"role":"user","content":"long"}}]}}'
            head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nContent-Type: application/json\r\n"
            token = f"Authorization: {daemon.client.headers['authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write((head + token + body).encode() * 3)
            await until(lambda: engine.running == 1)
            writer.close()
            await until(lambda: engine.running == 0 and daemon.services.serving.activity.in_flight == 0, seconds=2)
        assert len(engine.requests) == 2, "what came after was not begun"


async def test_a_large_body_is_no_long_header(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        assert (await daemon.chat("hello", padding="y" * (1 << 20))).status_code == 200
        assert (await daemon.chat("once more")).status_code == 200


def test_as_many_files_are_allowed_as_connections_need() -> None:
    """Many systems start a process with 1024 open files, which 1024 connections alone would use up."""
    code = (
        "import resource\nfrom daemon.listener import raise_file_limit\n"
        "hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\nresource.setrlimit(resource.RLIMIT_NOFILE, (300, hard))\n"
        "raise_file_limit()\nprint(resource.getrlimit(resource.RLIMIT_NOFILE)[0])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 300

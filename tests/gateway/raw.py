"""Bytes to the port as an attacker would send them, and what came back."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterable

from tests.daemon.running import Running


def request_bytes(
    daemon: Running, method: str = "GET", path: str = "/v1/models", headers: Iterable[str] = (), body: bytes = b"", *, version: str = "1.1"
) -> bytes:
    """A request with our Host and the client's token; `headers` are whole lines, which come last."""
    lines = [
        f"{method} {path} HTTP/{version}",
        f"Host: 127.0.0.1:{daemon.port}",
        f"Authorization: {daemon.client.headers['authorization']}",
        *headers,
    ]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


def chat_bytes(daemon: Running, text: str, *, stream: bool = False, headers: Iterable[str] = ()) -> bytes:
    body = json.dumps({"model": "scripted", "stream": stream, "messages": [{"role": "user", "content": text}]}).encode()
    length = f"Content-Length: {len(body)}"
    return request_bytes(daemon, "POST", "/v1/chat/completions", ["Content-Type: application/json", length, *headers], body)


async def answer(daemon: Running, data: bytes, *, seconds: float = 5.0, end: bool = False, to_the_end: bool = False) -> bytes:
    """All that comes until the daemon closes, or is quiet for a moment.

    Args:
        end: say that nothing more will be sent.
        to_the_end: the daemon will close; wait for that, up to `seconds` for each part.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.port)
    found = b""
    try:
        with contextlib.suppress(ConnectionError):
            writer.write(data)
            if end:
                writer.write_eof()
            await writer.drain()
            while piece := await asyncio.wait_for(reader.read(65536), seconds if to_the_end or not found else 0.15):
                found += piece
    except TimeoutError:
        pass
    finally:
        writer.close()
    return found


def bodies(data: bytes) -> list[bytes]:
    """Of all answers in `data`, which say how long they are."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        length = next(int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        found.append(data[:length])
        data = data[length:]
    return found


def statuses(data: bytes) -> list[int]:
    """Of all answers in `data`."""
    return [int(line.split(b" ")[1]) for line in data.split(b"\r\n") if line.startswith(b"HTTP/1.")]


async def serves(daemon: Running) -> None:
    """Others are served as before."""
    assert (await daemon.chat("are you well")).json()["choices"][0]["message"]["content"] == "echo: are you well"


async def is_well(daemon: Running) -> None:
    """As before, and nothing is left behind."""
    await serves(daemon)
    assert daemon.services.serving.activity.in_flight == 0

"""A small OpenAI-compatible server on a loopback port, for tests: echoes words, refuses and breaks on demand."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType

from daemon.records import JSON, JSONObject

CONTEXT_TOKENS = 2048  # words


class UpstreamServer:
    """Speaks just enough HTTP/1.1. Change its fields between requests."""

    def __init__(self) -> None:
        self.bodies: list[JSONObject] = []
        self.script: list[JSONObject] = []  # deltas to send instead of the echo
        self.finish_reason = "stop"
        self.refusal: tuple[int, JSON] | None = None
        self.fault = ""  # "hang up", "garbage", "no end"
        self.delay_s = 0.0
        self.open = 0  # replies being streamed
        self.url = ""

    async def __aenter__(self) -> UpstreamServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0)
            body = await reader.readexactly(length)
            if "/models" in head.split("\r\n", 1)[0]:
                self._answer(writer, 200, {"data": [{"id": "scripted", "context_length": CONTEXT_TOKENS}]})
            else:
                self.open += 1
                try:
                    await self._chat(writer, json.loads(body))
                finally:
                    self.open -= 1
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _answer(self, writer: asyncio.StreamWriter, status: int, body: JSON) -> None:
        data = json.dumps(body).encode()
        writer.write(f"HTTP/1.1 {status} X\r\ncontent-length: {len(data)}\r\nconnection: close\r\n\r\n".encode() + data)

    async def _chat(self, writer: asyncio.StreamWriter, body: JSONObject) -> None:
        self.bodies.append(body)
        messages = body["messages"]
        assert isinstance(messages, list) and isinstance(messages[-1], dict)
        words = str(messages[-1]["content"]).split()
        if len(words) > CONTEXT_TOKENS:
            text = f"This model's maximum context length is {CONTEXT_TOKENS} tokens, however you requested {len(words)} tokens."
            self.refusal = (400, {"error": {"message": text, "code": "context_length_exceeded"}})
        if self.refusal is not None:
            (status, refused), self.refusal = self.refusal, None
            self._answer(writer, status, refused)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        limit = body.get("max_tokens")
        deltas: list[JSONObject] = self.script or [{"content": f"{word} "} for word in words]
        cut = isinstance(limit, int) and not self.script and len(deltas) > limit
        for index, delta in enumerate(deltas[:limit] if isinstance(limit, int) and cut else deltas):
            if self.fault and index == 2:
                writer.write(b"data: <html>oops\n\n" if self.fault == "garbage" else b"")
                return
            self._event(writer, {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
            await writer.drain()
            await asyncio.sleep(self.delay_s)
        self._event(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "length" if cut else self.finish_reason}]})
        usage: JSONObject = {"prompt_tokens": len(words), "completion_tokens": min(len(words), limit if isinstance(limit, int) else 10**9)}
        self._event(writer, {"choices": [], "usage": usage})
        writer.write(b"data: [DONE]\n\n")

    def _event(self, writer: asyncio.StreamWriter, chunk: JSONObject) -> None:
        writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

"""A small OpenAI-compatible server on a loopback port, for tests: echoes words, refuses and breaks on demand."""

from __future__ import annotations

import asyncio
import json
from types import TracebackType

from daemon.records import JSON, JSONObject
from tests.engine.examples import example, example_call, forced, part, schema_of

CONTEXT_TOKENS = 2048  # words


class UpstreamServer:
    """Speaks just enough HTTP/1.1. Change its fields between requests."""

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.bodies: list[JSONObject] = []
        self.script: list[JSONObject] = []  # deltas to send instead of the echo
        self.finish_reason = "stop"
        self.refusal: tuple[int, JSON] | None = None
        self.fault = ""  # "hang up", "garbage", "no end"
        self.delay_s = 0.0
        self.sent = 0  # chunks of streams
        self.open = 0  # replies being streamed
        self.paths: list[str] = []
        self.models_status = 200
        self.looks = 0  # how often the models were asked for
        self.vectors: JSON = None  # to send instead of those of the texts
        self.other_logprob = -1.5
        self.working: asyncio.Event | None = None  # a whole reply waits for it
        self.verbatim: str | None = None  # a reply to send as it is
        self.content_type = ""  # of that reply
        self.headers: dict[str, str] = {}  # more of those of an answer that is not streamed
        self.seen: list[tuple[bytes, dict[str, str]]] = []  # bodies and headers as they came
        self.url = ""

    async def __aenter__(self) -> UpstreamServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next((int(line.split(":")[1]) for line in head.split("\r\n") if line.lower().startswith("content-length")), 0)
            body = await reader.readexactly(length)
            path = head.split(" ", 2)[1]
            named = (line.partition(":") for line in head.split("\r\n")[1:] if line)
            self.seen.append((body, {name.lower(): value.strip() for name, _, value in named}))
            if path.endswith("/models"):
                status, self.looks = self.models_status, self.looks + 1
                self._answer(writer, status, {"data": [{"id": "scripted", "context_length": CONTEXT_TOKENS}]})
            elif path.endswith("/embeddings"):
                self._embed(writer, json.loads(body))
            else:
                self.open += 1
                try:
                    await self._generate(writer, path, json.loads(body))
                finally:
                    self.open -= 1
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    def _embed(self, writer: asyncio.StreamWriter, body: JSONObject) -> None:
        self.bodies.append(body)
        texts = body["input"]
        assert isinstance(texts, list)
        data: list[JSON] = [
            {"index": index, "embedding": [1.0 + len(str(text)), float(str(text).count("e"))]} for index, text in enumerate(texts)
        ]
        answer: JSONObject = {"data": list(reversed(data)), "usage": {"prompt_tokens": 3 * len(texts)}}
        self._answer(writer, 200, self.vectors or answer)

    def _answer(self, writer: asyncio.StreamWriter, status: int, body: JSON, kind: str = "application/json") -> None:
        data = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        more = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\nconnection: close\r\n{more}\r\n"
        writer.write(head.encode("latin-1") + data)

    async def _generate(self, writer: asyncio.StreamWriter, path: str, body: JSONObject) -> None:
        self.bodies.append(body)
        self.paths.append(path)
        messages = body.get("messages")
        chat = isinstance(messages, list)
        last = messages[-1] if isinstance(messages, list) else {"content": body.get("prompt", body.get("input"))}
        assert isinstance(last, dict)
        words = str(last["content"]).split()
        if len(words) > CONTEXT_TOKENS:
            text = f"This model's maximum context length is {CONTEXT_TOKENS} tokens, however you requested {len(words)} tokens."
            self.refusal = (400, {"error": {"message": text, "code": "context_length_exceeded"}})
        if self.refusal is not None:
            (status, refused), self.refusal = self.refusal, None
            self._answer(writer, status, refused)
            return
        if self.verbatim is not None:
            kind = "text/event-stream" if body.get("stream") else "application/json"
            self._answer(writer, 200, self.verbatim, self.content_type or kind)
            return
        if not body.get("stream"):
            if self.working is not None:
                await self.working.wait()
            self._whole(writer, body, words, chat)
            return
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n")
        limit = body.get("max_tokens")
        choices = self._choices(body, words, chat)
        scripted = bool(self.script) or forced(body.get("tool_choice")) or "response_format" in body
        cut = isinstance(limit, int) and not scripted and len(choices) > limit
        for index, choice in enumerate(choices[:limit] if isinstance(limit, int) and cut else choices):
            if self.fault and index == 2:
                writer.write(b"data: <html>oops\n\n" if self.fault == "garbage" else b"")
                return
            self._event(writer, {"choices": [{"index": 0, "finish_reason": None, **choice}]})
            await writer.drain()
            self.sent += 1
            await asyncio.sleep(self.delay_s)
        self._event(writer, {"choices": [{"index": 0, "delta": {}, "text": "", "finish_reason": "length" if cut else self.finish_reason}]})
        usage: JSONObject = {"prompt_tokens": len(words), "completion_tokens": min(len(words), limit if isinstance(limit, int) else 10**9)}
        self._event(writer, {"choices": [], "usage": usage})
        writer.write(b"data: [DONE]\n\n")

    def _whole(self, writer: asyncio.StreamWriter, body: JSONObject, words: list[str], chat: bool) -> None:
        """The choices' texts in one."""
        said = self._choices(body, words, chat)
        text = "".join(str(part(choice, "delta").get("content", "")) if chat else str(choice["text"]) for choice in said)
        given: JSONObject = {"message": {"role": "assistant", "content": text}} if chat else {"text": text}
        usage: JSONObject = {"prompt_tokens": len(words), "completion_tokens": len(said)}
        asked = body.get("n")
        choices: list[JSON] = [
            {"index": index, "finish_reason": self.finish_reason, **given} for index in range(asked if isinstance(asked, int) else 1)
        ]
        self._answer(writer, 200, {"id": "up-1", "model": "scripted", "choices": choices, "usage": usage})

    def _choices(self, body: JSONObject, words: list[str], chat: bool) -> list[JSONObject]:
        """What each chunk's choice says."""
        tools, form, logprobs = body.get("tools"), body.get("response_format"), body.get("logprobs")
        if self.script:
            return [{"delta": delta} for delta in self.script]
        if isinstance(tools, list) and forced(body.get("tool_choice")):
            call = example_call(tuple(tool for tool in tools if isinstance(tool, dict)), body.get("tool_choice"))
            return [{"delta": {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", **call}]}}]
        if isinstance(form, dict):
            return [{"delta": {"content": json.dumps(example(schema_of(form)))}}]
        found: list[JSONObject] = []
        for word in words:
            text = f"{word} "
            choice: JSONObject = {"delta": {"content": text}} if chat else {"text": text}
            if chat and logprobs:
                entry: JSONObject = {"token": text, "logprob": -0.5, "bytes": list(text.encode())}
                choice["logprobs"] = {"content": [{**entry, "top_logprobs": [entry, {**entry, "logprob": self.other_logprob}]}]}
            elif logprobs is not None and not chat:
                choice["logprobs"] = {"tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{text: -0.5, "no": -1.5}]}
            found.append(choice)
        return found

    def _event(self, writer: asyncio.StreamWriter, chunk: JSONObject) -> None:
        writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

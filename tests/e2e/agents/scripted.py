"""A chat server that plays the model for real coding agents: a tool call for the first turn, text for the next."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

MODEL = "scripted"
CONTEXT_TOKENS = 131_072
PIECE_CHARACTERS = 7  # replies are streamed in pieces of this many


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model says: reasoning, text, calls; in this order."""

    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()  # name, arguments
    reasoning: str = ""


Body = dict[str, Any]


class Refused(Exception):
    """Raised by a script: the request is refused."""

    def __init__(self, status: int, error: Body) -> None:
        super().__init__(status, error)
        self.status, self.error = status, error


Script = Callable[[Body], Reply]


def tool_task(tool: str, arguments: dict[str, Any], final: str, aside: str = "A short title", reasoning: str = "") -> Script:
    """Call `tool` once, and say `final` when its result is there. A request without tools (a title, a summary) gets `aside`."""

    def script(body: Body) -> Reply:
        if not body.get("tools"):
            return Reply(aside)
        if body["messages"][-1]["role"] == "tool":
            return Reply(final)
        return Reply(calls=((tool, arguments),), reasoning=reasoning)

    return script


def tool_names(body: Body) -> list[str]:
    return [tool["function"]["name"] for tool in body.get("tools") or []]


class ScriptedServer:
    """Answers `/v1/models` and `/v1/chat/completions` from a thread. Set `script` before the agent starts; read `bodies` after."""

    def __init__(self) -> None:
        self.script: Script = lambda body: Reply("echo")
        self.bodies: list[Body] = []
        self.headers: list[dict[str, str]] = []  # of each of them, names in small letters
        self.prompt_tokens = 100  # what it says that a prompt had: agents compact by it
        self._calls = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def play(self, script: Script) -> None:
        """Follow `script` from now on, and forget the earlier requests."""
        self.script = script
        self.prompt_tokens = 100
        self.bodies.clear()
        self.headers.clear()

    def engine(self) -> str:
        """The daemon's configuration with this server as its engine."""
        return f"server: {{port: 0}}\nlearn: {{mode: manual}}\nengine: {{kind: upstream, url: {self.url!r}, model: {MODEL}}}\n"

    def message(self, body: Body) -> dict[str, Any]:
        """The assistant's message for a request, in OpenAI chat form."""
        with self._lock:
            self.bodies.append(body)
            reply = self.script(body)
            calls = []
            for name, arguments in reply.calls:
                self._calls += 1
                function = {"name": name, "arguments": json.dumps(arguments)}
                calls.append({"id": f"call_scripted{self._calls}", "type": "function", "function": function})
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        return {**message, "tool_calls": calls} if calls else message

    def _handler(server) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer(200, {"data": [{"id": MODEL, "context_length": CONTEXT_TOKENS}]})

            def do_POST(self) -> None:
                body = cast(Body, json.loads(self.rfile.read(int(self.headers["content-length"]))))
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                if not self.path.endswith("/chat/completions"):
                    self._answer(404, {"error": {"message": f"{self.path} is not spoken here", "code": "not_found"}})
                    return
                try:
                    message = server.message(body)
                except Refused as refused:
                    self._answer(refused.status, {"error": refused.error})
                    return
                finish = "tool_calls" if "tool_calls" in message else "stop"
                usage = {"prompt_tokens": server.prompt_tokens, "completion_tokens": 10, "total_tokens": server.prompt_tokens + 10}
                if body.get("stream"):
                    self._stream([*({"choices": [choice]} for choice in pieces(message, finish)), {"choices": [], "usage": usage}])
                else:
                    self._answer(200, {"choices": [{"index": 0, "message": message, "finish_reason": finish}], "usage": usage})

            def _stream(self, chunks: Sequence[Body]) -> None:
                self.send_response(200)
                self.send_header("content-type", "text/event-stream")
                self.send_header("connection", "close")
                self.end_headers()
                for chunk in chunks:
                    event = {"id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": MODEL, **chunk}
                    self.wfile.write(f"data: {json.dumps(event)}\n\n".encode())
                self.wfile.write(b"data: [DONE]\n\n")
                self.close_connection = True

            def _answer(self, status: int, content: Body) -> None:
                data = json.dumps({"id": "chatcmpl-scripted", "created": 0, "model": MODEL, **content}).encode()
                self.send_response(status)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """The tests' output is for the tests."""

        return Handler


def pieces(message: dict[str, Any], finish: str) -> Iterator[Body]:
    """The choices of the chunks that make up `message`."""
    yield {"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}
    for name in ("reasoning_content", "content"):
        for part in _cut(message.get(name) or ""):
            yield {"index": 0, "delta": {name: part}, "finish_reason": None}
    for index, call in enumerate(message.get("tool_calls") or []):
        function = call["function"]
        opening = {"index": index, "id": call["id"], "type": "function", "function": {"name": function["name"], "arguments": ""}}
        yield {"index": 0, "delta": {"tool_calls": [opening]}, "finish_reason": None}
        for part in _cut(function["arguments"]):
            yield {"index": 0, "delta": {"tool_calls": [{"index": index, "function": {"arguments": part}}]}, "finish_reason": None}
    yield {"index": 0, "delta": {}, "finish_reason": finish}


def _cut(text: str) -> list[str]:
    return [text[start : start + PIECE_CHARACTERS] for start in range(0, len(text), PIECE_CHARACTERS)]

"""The daemon's evaluation routes, answered by a function: what a run process talks to, without a daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from daemon.evolution.model_client import ModelClient
from daemon.records import JSON, JSONObject

Answer = Callable[[str, str], str]
"""(candidate, last user text) → reply"""


@dataclass
class Scripted:
    """`losses`: candidate → loss of every token that is scored."""

    answer: Answer
    losses: dict[str, float] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)  # (candidate, route)
    bodies: list[JSONObject] = field(default_factory=list)
    busy: int = 0  # so many requests are answered with 429 first
    down: bool = False

    def client(self, candidate: str = "r1") -> ModelClient:
        http = httpx.Client(transport=httpx.MockTransport(self._handle), base_url="http://reef")
        return ModelClient(http, "/reef/scenarios/default/evaluation", candidate, model="scripted")

    def _handle(self, request: httpx.Request) -> httpx.Response:
        if self.down:
            raise httpx.ConnectError("refused")
        candidate, route = request.url.path.removeprefix("/reef/scenarios/default/evaluation/").split("/v1/")
        body = json.loads(request.content)
        self.asked.append((candidate, route))
        self.bodies.append(body)
        if self.busy:
            self.busy -= 1
            return _error(429, "overloaded", "Too many requests are waiting.")
        if route == "chat/completions":
            return self._chat(candidate, body)
        if route == "score":
            return httpx.Response(200, json={"logprobs": [-self.losses.get(candidate, 3.0)] * (len(body["tokens"]) - 1)})
        text = body.get("text") or json.dumps(body["messages"])
        return httpx.Response(200, json={"tokens": list(text.encode())})

    def _chat(self, candidate: str, body: dict[str, JSON]) -> httpx.Response:
        messages = body["messages"]
        last = messages[-1] if isinstance(messages, list) else None
        text = self.answer(candidate, str(last["content"]) if isinstance(last, dict) else "")
        if text == "OVERFLOW":
            return _error(400, "context_length_exceeded", "maximum context length is 10 tokens")
        trace = {"prompt": [1, 2], "completion": [3], "logprobs": [-0.5]}
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 2, "completion_tokens": 1}
        return httpx.Response(200, json={"choices": [choice], "usage": usage, "reef": {"tokens": trace}})


def _error(status: int, code: str, message: str) -> httpx.Response:
    return httpx.Response(status, json={"error": {"code": code, "message": message, "hint": ""}})

"""One client of the soak test: conversations, tool calls, structure, hang-ups, and a question that is put again and again."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.e2e.reef_home import ReefHome

QUESTION = "Name a colour."
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "tide",
            "description": "The tide at a place.",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string", "maxLength": 20}, "hour": {"type": "integer"}},
                "required": ["place", "hour"],
                "additionalProperties": False,
            },
        },
    }
]
SCHEMA = {
    "type": "object",
    "properties": {"open": {"type": "boolean"}, "boats": {"type": "integer"}},
    "required": ["open", "boats"],
    "additionalProperties": False,
}


@dataclass
class Seen:
    """What all clients saw together."""

    receipts: list[str] = field(default_factory=list)
    hung_up: list[str] = field(default_factory=list)
    answers: dict[str, set[str]] = field(default_factory=dict)  # to QUESTION, by the release it was put to
    failures: list[tuple[float, float, str]] = field(default_factory=list)  # began, ended, what went wrong
    done: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Failed(Exception):
    """A request that was not answered as it should be."""


class Client:
    """One of the four; each request is of the next kind."""

    def __init__(self, reef: ReefHome, number: int, seen: Seen, releases: dict[str, str]) -> None:
        self._reef = reef
        self._number = number
        self._seen = seen
        self._releases = releases
        self._talk: list[dict[str, Any]] = []
        self._talks = 0
        kinds: list[Callable[[], None]] = [self._turn, self._fixed, self._tool, self._turn, self._hang_up, self._structure, self._turn]
        self._kinds = itertools.cycle(kinds[number:] + kinds[:number])
        self._bases = itertools.cycle(("base", "LoRA"))

    def request(self) -> None:
        began = time.monotonic()
        try:
            next(self._kinds)()
        except (Failed, httpx.HTTPError, ValueError, KeyError) as error:
            with self._seen.lock:
                self._seen.failures.append((began, time.monotonic(), f"{type(error).__name__}: {error}"))
        with self._seen.lock:
            self._seen.done += 1

    def _turn(self) -> None:
        """The next turn of a conversation, streamed; a new one after six turns, on whatever is the head then."""
        if len(self._talk) > 12:
            self._talk, self._talks = [], self._talks + 1
        if not self._talk:
            self._talk.append(
                {"role": "system", "content": f"You are harbour master {self._number}.{self._talks}. " + "Keep the log. " * 40}
            )
        self._talk.append({"role": "user", "content": f"Entry {len(self._talk)}: a boat came in. What now?"})
        text, _, receipt = self._stream({"messages": self._talk, "max_tokens": 24})
        self._talk.append({"role": "assistant", "content": text})
        self._keep(receipt)

    def _fixed(self) -> None:
        """The same question of a release that is named, alternately with a LoRA and without."""
        which = next(self._bases)
        body = self._whole(
            {
                "model": f"{self._reef.model}@{self._releases[which]}",
                "messages": [{"role": "user", "content": QUESTION}],
                "max_tokens": 24,
            }
        )
        with self._seen.lock:
            self._seen.answers.setdefault(which, set()).add(body["choices"][0]["message"]["content"])

    def _tool(self) -> None:
        body = self._whole(
            {
                "messages": [{"role": "user", "content": "When is high tide at the mill?"}],
                "tools": TOOLS,
                "tool_choice": {"type": "function", "function": {"name": "tide"}},
                "max_tokens": 200,
            }
        )
        choice = body["choices"][0]
        if choice["finish_reason"] == "length":
            return
        arguments = json.loads(choice["message"]["tool_calls"][0]["function"]["arguments"])
        if set(arguments) != {"place", "hour"}:
            raise Failed(f"a call with {arguments}")

    def _structure(self) -> None:
        text, reason, receipt = self._stream(
            {
                "messages": [{"role": "user", "content": f"Is the harbour open, and for how many boats? Day {self._number}."}],
                "response_format": {"type": "json_schema", "json_schema": {"name": "harbour", "schema": SCHEMA}},
                "temperature": 1.2,
                "max_tokens": 120,
            }
        )
        self._keep(receipt)
        if reason == "stop" and set(json.loads(text)) != {"open", "boats"}:
            raise Failed(f"not what the schema says: {text}")

    def _hang_up(self) -> None:
        _, _, name = self._stream(
            {"messages": [{"role": "user", "content": "Tell a very long story."}], "max_tokens": 400}, hang_up_after=3
        )
        with self._seen.lock:
            self._seen.hung_up.append(name)

    def _keep(self, receipt: str) -> None:
        with self._seen.lock:
            self._seen.receipts.append(receipt)

    def _whole(self, asked: dict[str, Any]) -> Any:
        response = self._reef.request("POST", "/v1/chat/completions", self._body(asked), who="client", timeout=240)
        if response.status_code != 200:
            raise Failed(f"{response.status_code} {response.text}")
        self._keep(response.headers["x-reef-agent-record-id"])
        return response.json()

    def _stream(self, asked: dict[str, Any], *, hang_up_after: int = 0) -> tuple[str, str, str]:
        """Text, finish reason and receipt of a stream. Left after `hang_up_after` pieces, its id says the receipt."""
        headers = {"authorization": f"Bearer {self._reef.token('client')}"}
        text, reason, receipt, done, pieces = "", "", "", False, 0
        body = self._body({**asked, "stream": True})
        with self._reef.http.stream("POST", self._reef.url + "/v1/chat/completions", json=body, headers=headers, timeout=240) as answer:
            if answer.status_code != 200:
                raise Failed(f"{answer.status_code} {answer.read().decode()}")
            for line in answer.iter_lines():
                done = done or line == "data: [DONE]"
                if not line.startswith("data: {"):
                    continue
                chunk = json.loads(line[6:])
                if "error" in chunk:
                    raise Failed(f"an error event: {chunk['error']}")
                for choice in chunk["choices"]:
                    text += choice["delta"].get("content") or ""
                    reason = choice["finish_reason"] or reason
                    pieces += 1
                receipt = (chunk.get("reef") or {}).get("agent_record_id", receipt)
                if 0 < hang_up_after <= pieces:
                    return text, "", "rec_" + chunk["id"].removeprefix("chatcmpl-")
        if not (done and reason and receipt):
            raise Failed(f"a stream that ends without its end: {text!r}, {reason!r}, {receipt!r}")
        return text, reason, receipt

    def _body(self, asked: dict[str, Any]) -> dict[str, Any]:
        return {"model": self._reef.model, "temperature": 0, **asked}

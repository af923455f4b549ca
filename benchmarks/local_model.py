"""The embedded model behind the routes that recipes speak to, in this process: no daemon, no recording.

Candidates: `base`, `head` (the same), `lora` (the LoRA set last), and with `+demos` behind it the set demonstrations too.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import httpx

from daemon.config import LlamaConfig
from daemon.engine.base import Engine, Finished, GenerateRequest, LoRA, Priority
from daemon.engine.factory import make_engine
from daemon.evolution.model_client import ModelClient
from daemon.files import sha256_file
from daemon.paths import Home
from daemon.records import JSON, JSONObject, Sampling
from daemon.serving_hints import ServingHints

T = TypeVar("T")


@dataclass(frozen=True)
class _Answer:
    text: str
    finished: Finished


class LocalModel:
    def __init__(self, home: Path) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self.engine: Engine = make_engine(LlamaConfig(), Home(home))
        self._wait(self.engine.start())
        self.hints = ServingHints()
        self._lora: LoRA | None = None

    def close(self) -> None:
        self._wait(self.engine.stop())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def set_lora(self, path: Path | None) -> None:
        if self._lora is not None:
            self._wait(self.engine.unload_lora(self._lora.id))
        self._lora = None if path is None else LoRA(sha256_file(path), path)
        if self._lora is not None:
            self._wait(self.engine.load_lora(self._lora))

    def client(self, candidate: str = "head") -> ModelClient:
        http = httpx.Client(transport=httpx.MockTransport(self._handle), base_url="http://local")
        return ModelClient(http, "/evaluation", candidate, model=self.engine.model.id)

    def _wait(self, work: Coroutine[object, object, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _handle(self, request: httpx.Request) -> httpx.Response:
        candidate, route = request.url.path.removeprefix("/evaluation/").split("/v1/")
        body: JSONObject = json.loads(request.content)
        lora = self._lora if candidate.startswith("lora") else None
        hints = self.hints if candidate.endswith("+demos") else ServingHints()
        routes: dict[str, Callable[[], JSON]] = {
            "render": lambda: {"tokens": self._render(body)},
            "tokenize": lambda: {"tokens": self._tokenize(body)},
            "score": lambda: {"logprobs": self._score(body, lora)},
            "chat/completions": lambda: self._chat(body, lora, hints),
        }
        return httpx.Response(200, json=routes[route]())

    def _render(self, body: JSONObject) -> list[JSON]:
        prompt = body["add_generation_prompt"] is True
        return [*self._wait(self.engine.render(_messages(body), add_generation_prompt=prompt))]

    def _tokenize(self, body: JSONObject) -> list[JSON]:
        return [*self._wait(self.engine.tokenize(str(body["text"]), special=body.get("special") is True))]

    def _score(self, body: JSONObject, lora: LoRA | None) -> list[JSON]:
        tokens = body["tokens"]
        ids = [token for token in tokens if isinstance(token, int)] if isinstance(tokens, list) else []
        return [*self._wait(self.engine.score(ids, lora))]

    def _chat(self, body: JSONObject, lora: LoRA | None, hints: ServingHints) -> JSONObject:
        seed, limit, temperature = body.get("seed"), body.get("max_tokens"), body.get("temperature")
        request = GenerateRequest(
            messages=hints.apply(_messages(body)),
            sampling=Sampling(
                temperature=float(temperature) if isinstance(temperature, int | float) else 1.0,
                seed=seed if isinstance(seed, int) else None,
            ),
            max_tokens=limit if isinstance(limit, int) else None,
            lora=lora,
            priority=Priority.EVALUATION,
        )
        answer = self._wait(self._generate(request))
        tokens = answer.finished.tokens
        trace: JSON = None
        if tokens is not None:
            trace = {"prompt": [*tokens.prompt], "completion": [*tokens.completion], "logprobs": [*tokens.logprobs]}
        choice: JSONObject = {"message": {"role": "assistant", "content": answer.text}, "finish_reason": answer.finished.finish_reason}
        return {"choices": [choice], "reef": {"tokens": trace}}

    async def _generate(self, request: GenerateRequest) -> _Answer:
        text = ""
        async for event in self.engine.generate(request):
            if isinstance(event, Finished):
                return _Answer(text, event)
            text += getattr(event, "text", "")
        raise RuntimeError("the engine ended a reply without saying so")


def _messages(body: JSONObject) -> tuple[JSONObject, ...]:
    messages = body["messages"]
    return tuple(message for message in messages if isinstance(message, dict)) if isinstance(messages, list) else ()

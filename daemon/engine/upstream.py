"""Another OpenAI-compatible server as the engine: requests go through, replies stream back, errors keep their meaning.

It declares no capabilities: without token ids nothing that trains weights can use what it says; harness recipes can.
Only the URL that the user named is called, without proxies and without following redirects.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import AsyncGenerator

import httpx

from daemon.config import UpstreamConfig
from daemon.engine.base import (
    Capability,
    Delta,
    Embedded,
    Engine,
    Event,
    Finished,
    GenerateRequest,
    LoRA,
    ModelInfo,
    Priority,
    Stats,
)
from daemon.engine.upstream_errors import foreign_errors, raise_for_status, stream_error
from daemon.errors import BadRequest, EngineError, Unsupported
from daemon.records import JSON, JSONObject, Message, Sampling, Usage

_TIMEOUT = httpx.Timeout(connect=10, read=300, write=60, pool=60)  # read: between two pieces, a long prompt being read included
_LINE_LIMIT_BYTES = 16 << 20
_REPLY_LIMIT_BYTES = 64 << 20  # of a reply that never ends
_UNKNOWN_CONTEXT_TOKENS = 32768  # where the server does not say
_CONTEXT_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx")


class UpstreamEngine(Engine):
    """A pooled client of one server."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._config = config
        self._model = ModelInfo(id=config.model, context_tokens=_UNKNOWN_CONTEXT_TOKENS)
        self._client: httpx.AsyncClient | None = None
        self._state = "starting"
        self._active = 0
        self._detail = ""

    @property
    def capabilities(self) -> Capability:
        return Capability.NONE

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        return Stats(self._state, active=self._active, detail=self._detail)

    async def start(self) -> None:
        """Open the connection pool and ask for the model's window.

        Raises:
            EngineError: the server cannot be reached, or refuses the key.
        """
        headers = {}
        if self._config.api_key_env:
            key = os.environ.get(self._config.api_key_env)
            if not key:
                raise EngineError(f"The variable {self._config.api_key_env} is not set.", "Set it to the upstream's key and start again.")
            headers["authorization"] = f"Bearer {key}"
        client = httpx.AsyncClient(
            base_url=self._config.url.rstrip("/") + "/",
            headers=headers,
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=32),
        )
        try:
            with foreign_errors(self._config.url):
                response = await client.get("models")
                if response.status_code in (401, 403):
                    await raise_for_status(response)
        except EngineError:
            await client.aclose()
            raise
        self._client, self._state = client, "ready"
        window = _window(response, self._config.model)
        if window:
            self._model = ModelInfo(id=self._config.model, context_tokens=window)
        else:
            self._detail = "The upstream does not say how long its context is."

    async def stop(self) -> None:
        client, self._client, self._state = self._client, None, "stopped"
        if client is not None:
            await client.aclose()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        if request.max_tokens is not None and request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if request.lora is not None:
            raise _unsupported("load a LoRA")
        if self._client is None:
            raise EngineError("The upstream engine is not started.", "Start the daemon again.")
        self._active += 1
        try:
            with foreign_errors(self._config.url):
                async with self._client.stream("POST", "chat/completions", json=self._body(request)) as response:
                    await raise_for_status(response)
                    reply = _Reply()
                    async with contextlib.aclosing(_data_lines(response)) as lines:
                        async for line in lines:
                            for event in reply.take(line):
                                yield event
                    yield reply.finished()
        finally:
            self._active -= 1

    def _body(self, request: GenerateRequest) -> JSONObject:
        body: JSONObject = {
            **request.extra,
            "model": self._config.model,
            "messages": list(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "n": 1,
            **_sampling_fields(request.sampling),
        }
        if request.max_tokens is not None:
            body["max_tokens"] = request.max_tokens
        if request.tools:
            body["tools"] = list(request.tools)
        return body

    async def load_lora(self, lora: LoRA) -> None:
        raise _unsupported("load a LoRA")

    async def unload_lora(self, lora_id: str) -> None:
        raise _unsupported("load a LoRA")

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        raise _unsupported("give token ids")

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        raise _unsupported("give token ids")

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        raise _unsupported("make embeddings")

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        raise _unsupported("score a given text")


class _Reply:
    """A streamed reply, put together."""

    def __init__(self) -> None:
        self._finish_reason = ""
        self._usage = Usage(0, 0)
        self._pieces = 0

    def take(self, line: str) -> list[Event]:
        """The events of one `data:` line."""
        if line == "[DONE]":
            return []
        try:
            chunk: JSON = json.loads(line)
        except ValueError as error:
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.") from error
        if not isinstance(chunk, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        if "error" in chunk:
            raise stream_error(chunk["error"])
        self._take_usage(chunk.get("usage"))
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices or not isinstance(choice := choices[0], dict):
            return []
        reason = choice.get("finish_reason")
        if isinstance(reason, str):
            self._finish_reason = reason
        delta = choice.get("delta")
        event = _delta(delta) if isinstance(delta, dict) else Delta()
        if event == Delta():
            return []
        self._pieces += 1
        return [event]

    def _take_usage(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            details = usage.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self._usage = Usage(_whole(usage.get("prompt_tokens")), _whole(usage.get("completion_tokens")), _whole(cached))

    def finished(self) -> Finished:
        """Raises EngineError if the upstream closed the stream before the reply's end."""
        if not self._finish_reason:
            raise EngineError("The upstream broke off in the middle of its reply.", "Send the request again.")
        usage = self._usage if self._usage.completion_tokens else Usage(self._usage.prompt_tokens, self._pieces)
        return Finished(self._finish_reason, usage)


async def _data_lines(response: httpx.Response) -> AsyncGenerator[str, None]:
    """What the `data:` lines of a server-sent event stream hold."""
    pending, received = b"", 0
    async for block in response.aiter_bytes():
        pending += block
        received += len(block)
        if received > _REPLY_LIMIT_BYTES:
            raise EngineError("The upstream sent a reply without end.", "Set max_tokens, and look at its log.")
        if len(pending) > _LINE_LIMIT_BYTES:
            raise EngineError("The upstream sent a line without end.", "Look at its log.")
        *lines, pending = pending.split(b"\n")
        for line in lines:
            if line.startswith(b"data:"):
                yield line[5:].strip().decode(errors="replace")
    if pending.startswith(b"data:"):
        yield pending[5:].strip().decode(errors="replace")


def _delta(delta: JSONObject) -> Delta:
    content, calls = delta.get("content"), delta.get("tool_calls")
    reasoning = delta.get("reasoning_content") or delta.get("reasoning")
    return Delta(
        text=content if isinstance(content, str) else "",
        reasoning=reasoning if isinstance(reasoning, str) else "",
        tool_calls=tuple(call for call in calls if isinstance(call, dict)) if isinstance(calls, list) else (),
    )


def _sampling_fields(sampling: Sampling) -> JSONObject:
    """What differs from the wire's defaults; fields beyond OpenAI's only when they are set."""
    fields: JSONObject = {"temperature": sampling.temperature}
    default = Sampling()
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    numbers: dict[str, tuple[float, float]] = {
        "top_p": (sampling.top_p, default.top_p),
        "top_k": (sampling.top_k, default.top_k),
        "min_p": (sampling.min_p, default.min_p),
        "presence_penalty": (sampling.presence_penalty, default.presence_penalty),
        "frequency_penalty": (sampling.frequency_penalty, default.frequency_penalty),
        "repeat_penalty": (sampling.repeat_penalty, default.repeat_penalty),
    }
    fields.update({name: value for name, (value, usual) in numbers.items() if value != usual})
    return fields


def _window(response: httpx.Response, model: str) -> int:
    """The context window that `/models` tells of this model; 0 if it does not."""
    try:
        body: JSON = response.json()
    except ValueError:
        return 0
    data = body.get("data") if isinstance(body, dict) else None
    for entry in data if isinstance(data, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            meta = entry.get("meta")
            for source in (entry, meta if isinstance(meta, dict) else {}):
                for key in _CONTEXT_KEYS:
                    if _whole(source.get(key)):
                        return _whole(source.get(key))
    return 0


def _whole(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"An upstream engine cannot {what}.", "Set engine.kind: llama for what needs this.")

"""Another OpenAI-compatible server as the engine: requests go through, replies stream back, errors keep their meaning.

Without token ids nothing that trains weights can use what it says; harness recipes can. Structured replies, filling in and embeddings
are declared, for the server answers for itself. Only the URL that the user named is called, without proxies and without following
redirects. A server that is away is looked for until it is back; requests try it meanwhile, and say that it cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace

import httpx

from daemon.config import UpstreamConfig
from daemon.engine.base import (
    Capability,
    Embedded,
    Engine,
    Event,
    GenerateRequest,
    LoRA,
    ModelInfo,
    Priority,
    Stats,
)
from daemon.engine.upstream.chat_reply import ChatReader, data_lines, read_json, whole
from daemon.engine.upstream.chat_request import body_of, path_of
from daemon.engine.upstream.errors import Unreachable, foreign_errors, raise_for_status, refusal
from daemon.errors import BadRequest, EngineError, ReefError, Unsupported
from daemon.records import JSON, JSONObject, Message

_TIMEOUT = httpx.Timeout(connect=10, read=300, write=60, pool=60)  # read: between two pieces, a long prompt being read included
_LIMITS = httpx.Limits(max_connections=64, max_keepalive_connections=32)
_LOOK_TIMEOUT_S = 10.0
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 5.0
_NOT_READY = (502, 503, 504)  # a proxy whose server is away, or a server that loads its model
_UNKNOWN_CONTEXT_TOKENS = 32768  # where the server does not say
_CONTEXT_KEYS = ("context_length", "max_model_len", "context_window", "max_context_length", "n_ctx")
_NO_WINDOW = "The upstream does not say how long its context is."


class UpstreamEngine(Engine):
    """A pooled client of one server."""

    def __init__(self, config: UpstreamConfig) -> None:
        self._config = config
        self._model = ModelInfo(id=config.model, context_tokens=_UNKNOWN_CONTEXT_TOKENS)
        self._client: httpx.AsyncClient | None = None
        self._stats = Stats("starting")
        self._active = 0
        self._looking: asyncio.Task[None] | None = None

    @property
    def capabilities(self) -> Capability:
        return Capability.STRUCTURE | Capability.FILL_IN_MIDDLE | Capability.EMBEDDINGS

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        return replace(self._stats, active=self._active)

    async def start(self) -> None:
        """Open the connection pool and ask for the model's window. A server that is away is waited for in the background.

        Raises:
            EngineError: the key is not set, or the server refuses it.
        """
        headers = {}
        if self._config.api_key_env:
            key = os.environ.get(self._config.api_key_env)
            if not key:
                raise EngineError(f"The variable {self._config.api_key_env} is not set.", "Set it to the upstream's key and start again.")
            headers["authorization"] = f"Bearer {key}"
        self._client = httpx.AsyncClient(
            base_url=self._config.url.rstrip("/") + "/",
            headers=headers,
            timeout=_TIMEOUT,
            trust_env=False,
            follow_redirects=False,
            limits=_LIMITS,
        )
        try:
            await self._look(self._client)
        except Unreachable as error:
            self._is_away(error)
        except ReefError:
            await self.stop()
            raise

    async def stop(self) -> None:
        client, self._client, self._stats = self._client, None, Stats("stopped")
        looking, self._looking = self._looking, None
        if looking is not None:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        if client is not None:
            await client.aclose()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        if request.max_tokens is not None and request.max_tokens < 1:
            raise BadRequest("max_tokens must be at least 1.", param="max_tokens")
        if request.lora is not None:
            raise _unsupported("load a LoRA")
        client = self._started()
        self._active += 1
        try:
            with self._watched():
                async with client.stream("POST", path_of(request), json=body_of(request, self._config.model)) as response:
                    await raise_for_status(response)
                    reply = ChatReader()
                    async with contextlib.aclosing(data_lines(response)) as lines:
                        async for line in lines:
                            for event in reply.take(line):
                                yield event
                    yield reply.finished()
        finally:
            self._active -= 1

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        client = self._started()
        self._active += 1
        try:
            with self._watched():
                body: JSONObject = {"model": self._config.model, "input": list(texts), "encoding_format": "float"}
                async with client.stream("POST", "embeddings", json=body) as response:
                    await raise_for_status(response)
                    answer = await read_json(response)
        finally:
            self._active -= 1
        return _embedded(answer, len(texts))

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

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        raise _unsupported("score a given text")

    def _started(self) -> httpx.AsyncClient:
        if self._client is None:
            raise EngineError("The upstream engine is not started.", "Start the daemon again.")
        return self._client

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        """Around a request: foreign errors become ours, and a server that is away is noticed."""
        try:
            with foreign_errors(self._config.url):
                yield
        except Unreachable as error:
            self._is_away(error)
            raise

    async def _look(self, client: httpx.AsyncClient) -> None:
        """Ask for the models: the server is there, and may say how long its context is.

        Raises:
            Unreachable: it is away, or does not answer.
            EngineError: it refuses the key.
        """
        try:
            with foreign_errors(self._config.url):
                async with client.stream("GET", "models", timeout=_LOOK_TIMEOUT_S) as response:
                    body, status = await read_json(response), response.status_code
        except EngineError as error:
            raise Unreachable(error.message, error.hint) from error
        if status in _NOT_READY:
            raise Unreachable(f"The upstream {self._config.url} is not ready: status {status}.", "Wait until it is.")
        if status in (401, 403):
            raise refusal(status, body)
        window = _window(body, self._config.model)
        if window:
            self._model = ModelInfo(id=self._config.model, context_tokens=window)
        self._stats = Stats("ready", detail="" if window else _NO_WINDOW)

    def _is_away(self, error: ReefError) -> None:
        """Say so in the status, and look for it until it is back."""
        self._stats = replace(self._stats, state="restarting", detail=error.message)
        if self._client is not None and self._looking is None:
            self._looking = asyncio.create_task(self._look_until_back(self._client), name="upstream-lookout")

    async def _look_until_back(self, client: httpx.AsyncClient) -> None:
        pause = _FIRST_PAUSE_S
        while True:
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE_S, pause * 2)
            try:
                await self._look(client)
            except ReefError as error:
                self._stats = replace(self._stats, state="restarting", detail=error.message)
            else:
                self._looking = None
                return


def _window(body: JSON, model: str) -> int:
    """The context window that `/models` tells of this model; 0 if it does not."""
    data = body.get("data") if isinstance(body, dict) else None
    for entry in data if isinstance(data, list) else []:
        if isinstance(entry, dict) and entry.get("id") == model:
            meta = entry.get("meta")
            for source in (entry, meta if isinstance(meta, dict) else {}):
                for key in _CONTEXT_KEYS:
                    if whole(source.get(key)):
                        return whole(source.get(key))
    return 0


def _unsupported(what: str) -> Unsupported:
    return Unsupported(f"An upstream engine cannot {what}.", "Set engine.kind: llama for what needs this.")


def _embedded(body: JSON, count: int) -> Embedded:
    """The vectors in the order of the texts, made of unit length. Raises EngineError for what is no such answer."""
    data, usage = (body.get("data"), body.get("usage")) if isinstance(body, dict) else (None, None)
    vectors: dict[int, tuple[float, ...]] = {}
    for place, entry in enumerate(data if isinstance(data, list) else []):
        if isinstance(entry, dict) and (vector := _vector(entry.get("embedding"))):
            index = entry.get("index")
            vectors[index if isinstance(index, int) else place] = vector
    if sorted(vectors) != list(range(count)):
        raise EngineError("The upstream sent something that is no list of vectors.", "Look at its log.")
    tokens = whole(usage.get("prompt_tokens")) if isinstance(usage, dict) else 0
    return Embedded(tuple(vectors[index] for index in range(count)), tokens)


def _vector(value: JSON) -> tuple[float, ...]:
    """Empty for what is no vector, or has no length."""
    if not isinstance(value, list):
        return ()
    try:
        numbers = [float(each) for each in value if isinstance(each, int | float) and not isinstance(each, bool)]
        length = math.hypot(*numbers)
    except OverflowError:
        return ()
    if len(numbers) != len(value) or not math.isfinite(length) or not length:
        return ()
    return tuple(each / length for each in numbers)

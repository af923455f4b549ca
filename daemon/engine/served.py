"""The engine that serves now, under one name that stays while `reef models use` puts another in its place.

A call goes to the engine that serves when it is made, and ends there. Requests of clients are bound earlier, with their release: see
`daemon.serving.serving.Lease`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable
from typing import TypeVar

from daemon.engine.base import Capability, Counted, Embedded, Engine, Event, GenerateRequest, LoRA, ModelInfo, Priority, Stats
from daemon.records import JSONObject, Message

T = TypeVar("T")


class ServedEngine(Engine):
    """Passes every call on."""

    def __init__(self, engine: Engine) -> None:
        self._current = engine
        self._calls: Counter[Engine] = Counter()
        self._before: set[Engine] = set()  # not stopped yet

    @property
    def current(self) -> Engine:
        """The engine itself."""
        return self._current

    def switch(self, engine: Engine) -> Engine:
        """Let `engine`, which has started, serve from now on. Returns the one before; it goes on until `retired`."""
        before, self._current = self._current, engine
        self._before.add(before)
        return before

    def computes(self, engine: Engine) -> bool:
        """Whether a call that came this way is open on `engine`."""
        return self._calls[engine] > 0

    async def retired(self, engine: Engine) -> None:
        """Stop an engine that nobody needs any more."""
        await engine.stop()
        self._before.discard(engine)
        self._calls.pop(engine, None)

    @property
    def capabilities(self) -> Capability:
        return self._current.capabilities

    @property
    def wires(self) -> frozenset[str]:
        return self._current.wires

    @property
    def model(self) -> ModelInfo:
        return self._current.model

    @property
    def stats(self) -> Stats:
        return self._current.stats

    async def start(self) -> None:
        await self._current.start()

    async def stop(self) -> None:
        await asyncio.gather(*(engine.stop() for engine in {self._current, *self._before}))

    def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        return self._generate(self._current, request)

    async def _generate(self, engine: Engine, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        self._calls[engine] += 1
        try:
            async with contextlib.aclosing(engine.generate(request)) as events:
                async for event in events:
                    yield event
        finally:
            self._calls[engine] -= 1

    async def load_lora(self, lora: LoRA) -> None:
        await self._through(self._current, self._current.load_lora(lora))

    async def unload_lora(self, lora_id: str) -> None:
        await self._through(self._current, self._current.unload_lora(lora_id))

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return await self._through(self._current, self._current.tokenize(text, special=special))

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        return await self._through(self._current, self._current.pieces(tokens))

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        rendered = self._current.render(messages, tools, add_generation_prompt=add_generation_prompt)
        return await self._through(self._current, rendered)

    async def count(self, request: GenerateRequest) -> Counted:
        return await self._through(self._current, self._current.count(request))

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        return await self._through(self._current, self._current.score(tokens, lora, priority=priority))

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        return await self._through(self._current, self._current.embed(texts))

    async def _through(self, engine: Engine, call: Awaitable[T]) -> T:
        self._calls[engine] += 1
        try:
            return await call
        finally:
            self._calls[engine] -= 1

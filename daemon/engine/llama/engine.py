"""The embedded engine as the daemon sees it: calls to the worker process, and what they mean.

Requests that had shown nothing when the worker died are asked once more; others end with `EngineError`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from daemon.engine.base import Capability, Delta, Embedded, Engine, Event, Finished, GenerateRequest, LoRA, ModelInfo, Priority, Stats
from daemon.engine.llama.earlier_workers import EarlierWorkers
from daemon.engine.llama.messages import embedded_of, event_of, generate_message, lora_json, numbers, pieces_of, token_ids
from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.llama.room import needed_bytes
from daemon.engine.llama.supervisor import Supervisor, WorkerGone
from daemon.errors import DataError, Unsupported
from daemon.files import sha256_file
from daemon.gguf import GGUFHeader
from daemon.models import TRAINABLE_ARCHITECTURES
from daemon.records import JSONObject, Message

_ALWAYS = Capability.TOKEN_IDS | Capability.LOGPROBS | Capability.LORA | Capability.SCORE | Capability.STRUCTURE


class LlamaEngine(Engine):
    """llama.cpp in a child process. Made by `daemon.engine.factory`."""

    def __init__(self, settings: WorkerSettings, header: GGUFHeader, model_id: str, log: Path) -> None:
        self._settings = settings
        self._worker = Supervisor(settings, log)
        self._earlier = EarlierWorkers()
        self._memory_bytes = needed_bytes(settings, header)
        self._model = ModelInfo(
            id=model_id,
            context_tokens=settings.context_tokens,
            path=settings.model,
            quantisation=header.quantisation,
            architecture=header.architecture,
            template_sha256=hashlib.sha256((header.chat_template or "").encode()).hexdigest(),
            size_bytes=header.size_bytes,
            parameters=header.parameters,
        )

    @property
    def capabilities(self) -> Capability:
        """Some depend on the model, and are known once the engine has started."""
        facts, found = self._worker.facts, _ALWAYS
        if self._model.architecture in TRAINABLE_ARCHITECTURES:
            found |= Capability.TRAINABLE
        if facts is not None and facts.fill_in_middle:
            found |= Capability.FILL_IN_MIDDLE
        if facts is not None and facts.pools:
            found |= Capability.EMBEDDINGS
        return found

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        stats = self._worker.stats
        return replace(stats, cache=self._earlier.added(stats.cache))

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, while it is ready."""
        return self._worker.worker_pid

    @property
    def memory_bytes(self) -> int:
        """About what the worker takes."""
        return self._memory_bytes

    def follow(self, before: LlamaEngine) -> None:
        """Take `before`'s place: its conversations go on here, and are read anew."""
        self._earlier.take_over(before._earlier)

    async def start(self) -> None:
        """Raises DataError or EngineError if the model cannot be loaded."""
        try:
            digest = self._model.sha256 or await asyncio.to_thread(sha256_file, self._settings.model)
        except OSError as error:
            raise DataError(
                f"{self._settings.model} cannot be read: {error.strerror}.", "Put the file back, or set engine.model."
            ) from error
        await self._worker.start(digest)
        facts = self._worker.facts
        if facts is not None:
            self._model = replace(self._model, sha256=digest, context_tokens=facts.context_tokens, tool_format=facts.tool_format)

    async def stop(self) -> None:
        await self._worker.stop()

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        message = generate_message(request)
        for attempt in (1, 2):
            shown = False
            try:
                async with contextlib.aclosing(self._worker.call(message)) as answers:
                    async for answer in answers:
                        event = event_of(answer)
                        shown = shown or isinstance(event, Delta)
                        if isinstance(event, Finished):
                            event = self._earlier.explained(request, event, self._worker.stats.restarts)
                        yield event
                return
            except WorkerGone:
                if shown or attempt == 2:
                    raise

    async def load_lora(self, lora: LoRA) -> None:
        await self._worker.ask({"type": "load_lora", "lora": lora_json(lora)})

    async def unload_lora(self, lora_id: str) -> None:
        await self._worker.ask({"type": "unload_lora", "lora_id": lora_id})

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return token_ids(await self._worker.ask({"type": "tokenize", "text": text, "special": special}))

    async def pieces(self, tokens: list[int]) -> list[bytes]:
        return pieces_of(await self._worker.ask({"type": "pieces", "tokens": list(tokens)}))

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        message: JSONObject = {"type": "render", "messages": list(messages), "tools": list(tools)}
        return token_ids(await self._worker.ask({**message, "add_generation_prompt": add_generation_prompt}))

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        message: JSONObject = {"type": "score", "tokens": list(tokens), "lora": lora_json(lora), "priority": int(priority)}
        return numbers(await self._worker.ask(message))

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        if Capability.EMBEDDINGS not in self.capabilities:
            raise Unsupported("This model cannot make embeddings.", "Serve a model that pools, or name another server as the engine.")
        return embedded_of(await self._worker.ask({"type": "embed", "texts": list(texts)}))

"""The embedded engine as the daemon sees it: supervises the worker process and speaks with it.

A worker that dies is started again, with growing pauses. Requests that had shown nothing yet are asked once more; others end with
`EngineError`. LoRAs need no reloading here: every call names its file, and the worker loads what it lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import os
from collections.abc import AsyncGenerator
from dataclasses import replace
from pathlib import Path

from daemon.children import Child, ChildGone
from daemon.engine.base import (
    Capability,
    Delta,
    Embedded,
    Engine,
    Event,
    GenerateRequest,
    LoRA,
    ModelInfo,
    Priority,
    Stats,
)
from daemon.engine.llama.messages import event_of, generate_message, lora_json, numbers, stats_of, token_ids, whole
from daemon.engine.llama.protocol import WorkerSettings, error_from_json
from daemon.errors import EngineError, ReefError, Unsupported
from daemon.files import sha256_file
from daemon.gguf import GGUFHeader
from daemon.records import JSON, JSONObject, Message

_MODULE = "daemon.engine.llama.worker"
_READY_S = 120.0  # loading a large model from a slow disk
_WAIT_FOR_RESTART_S = 15.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 30.0  # a worker that lived so long was no failed start


class _Crashed(EngineError):
    """The worker died while this call was open."""


class LlamaEngine(Engine):
    """llama.cpp in a child process. Made by `daemon.engine.factory`."""

    def __init__(self, settings: WorkerSettings, header: GGUFHeader, model_id: str, log: Path) -> None:
        self._settings = settings
        self._log = log
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
        self._stats = Stats("starting")
        self._child: Child | None = None
        self._ready = asyncio.Event()
        self._calls: dict[int, asyncio.Queue[JSONObject | _Crashed]] = {}
        self._ids = itertools.count(1)
        self._supervisor: asyncio.Task[None] | None = None
        self._failure: ReefError | None = None
        self._model_was_ready = False

    @property
    def capabilities(self) -> Capability:
        return Capability.TOKEN_IDS | Capability.LOGPROBS | Capability.LORA | Capability.SCORE | Capability.TRAINABLE

    @property
    def model(self) -> ModelInfo:
        return self._model

    @property
    def stats(self) -> Stats:
        return self._stats

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, while it is ready."""
        return self._child.pid if self._child and self._ready.is_set() else None

    async def start(self) -> None:
        """Raises DataError or EngineError if the model cannot be loaded the first time."""
        if not self._model.sha256:
            digest = await asyncio.to_thread(sha256_file, self._settings.model)
            self._model = replace(self._model, sha256=digest)
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")
        ready = asyncio.create_task(self._ready.wait())
        await asyncio.wait({ready, self._supervisor}, timeout=_READY_S, return_when=asyncio.FIRST_COMPLETED)
        ready.cancel()
        if not self._ready.is_set():
            failure = self._failure or EngineError("The engine did not start in time.", f"Its log is {self._log}.")
            await self.stop()
            raise failure

    async def stop(self) -> None:
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
            self._supervisor = None
        self._stats = Stats("stopped")

    async def _supervise(self) -> None:
        """Keep a worker running. Ends only when the very first one says that it cannot load the model."""
        pause, restarts, loop = _FIRST_PAUSE_S, 0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._run_worker(restarts)
            except ReefError as error:
                self._failure = error
            if self._failure is not None and restarts == 0 and not self._model_was_ready:
                self._stats = replace(self._stats, state="failed", detail=self._failure.message)
                return
            pause = _FIRST_PAUSE_S if loop.time() - began > _STEADY_S else min(_LONGEST_PAUSE_S, pause * 2)
            restarts += 1
            detail = self._failure.message if self._failure else "The engine worker ended unexpectedly."
            self._stats = Stats("restarting", restarts=restarts, detail=detail)
            await asyncio.sleep(pause)

    async def _run_worker(self, restarts: int) -> None:
        """One life of a worker, from start to end; its open calls end with it."""
        child = await Child.start(_MODULE, [], log=self._log, env=_threads_that_soon_sleep())
        self._child = child
        try:
            start: JSONObject = {"type": "start", **self._settings.model_dump(mode="json")}
            await child.send(start)
            async for message in child.messages():
                kind, call = message.get("type"), message.get("id")
                if kind == "stats":
                    self._stats = stats_of(message, restarts)
                elif kind == "ready":
                    self._model = replace(self._model, context_tokens=whole(message.get("context_tokens")))
                    self._stats = Stats("ready", restarts=restarts)
                    self._failure, self._model_was_ready = None, True
                    self._ready.set()
                elif kind == "failed":
                    raise error_from_json(message)
                elif isinstance(call, int) and call in self._calls:
                    self._calls[call].put_nowait(message)
            raise EngineError("The engine worker ended unexpectedly.", f"Its log is {self._log}.")
        finally:
            self._ready.clear()
            crash = _Crashed("The engine stopped while it was computing this reply.", "Send the request again.")
            for queue in self._calls.values():
                queue.put_nowait(crash)
            self._child = None
            await child.terminate(grace_s=0.5)

    async def _call(self, message: JSONObject) -> AsyncGenerator[JSONObject, None]:
        """Send a call and yield its answers; leaving early cancels it."""
        try:
            await asyncio.wait_for(self._ready.wait(), _WAIT_FOR_RESTART_S)
        except TimeoutError as error:
            detail = self._failure.message if self._failure else "The engine is not running."
            raise EngineError(detail, f"Its log is {self._log}.") from error
        child = self._child
        if child is None:
            raise EngineError("The engine is not running.", "Try again in a moment.")
        number = next(self._ids)
        queue: asyncio.Queue[JSONObject | _Crashed] = asyncio.Queue()
        self._calls[number] = queue
        ended = False
        try:
            try:
                await child.send({**message, "id": number})
            except ChildGone as error:
                raise _Crashed("The engine stopped before it took this request.", "Send the request again.") from error
            while not ended:
                answer = await queue.get()
                if isinstance(answer, _Crashed):
                    ended = True
                    raise answer
                ended = answer.get("type") in ("finished", "result", "error")
                if answer.get("type") == "error":
                    raise error_from_json(answer)
                yield answer
        finally:
            del self._calls[number]
            if not ended:
                with contextlib.suppress(ChildGone):
                    await child.send({"type": "cancel", "id": number})

    async def _ask(self, message: JSONObject) -> JSON:
        """A call with one result; asked once more if the worker dies over it."""
        for attempt in (1, 2):
            try:
                async with contextlib.aclosing(self._call(message)) as answers:
                    async for answer in answers:
                        return answer.get("value")
            except _Crashed:
                if attempt == 2:
                    raise
        raise EngineError("The engine gave no answer.", "Send the request again.")

    async def generate(self, request: GenerateRequest) -> AsyncGenerator[Event, None]:
        message = generate_message(request)
        for attempt in (1, 2):
            shown = False
            try:
                async with contextlib.aclosing(self._call(message)) as answers:
                    async for answer in answers:
                        event = event_of(answer)
                        shown = shown or isinstance(event, Delta)
                        yield event
                return
            except _Crashed:
                if shown or attempt == 2:
                    raise

    async def load_lora(self, lora: LoRA) -> None:
        await self._ask({"type": "load_lora", "lora": lora_json(lora)})

    async def unload_lora(self, lora_id: str) -> None:
        await self._ask({"type": "unload_lora", "lora_id": lora_id})

    async def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        return token_ids(await self._ask({"type": "tokenize", "text": text, "special": special}))

    async def render(
        self, messages: tuple[Message, ...], tools: tuple[JSONObject, ...] = (), *, add_generation_prompt: bool = True
    ) -> list[int]:
        message: JSONObject = {"type": "render", "messages": list(messages), "tools": list(tools)}
        return token_ids(await self._ask({**message, "add_generation_prompt": add_generation_prompt}))

    async def embed(self, texts: tuple[str, ...]) -> Embedded:
        raise Unsupported("This model cannot make embeddings.", "Serve a model that pools, or name another server as the engine.")

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        message: JSONObject = {"type": "score", "tokens": list(tokens), "lora": lora_json(lora), "priority": int(priority)}
        return numbers(await self._ask(message))


def _threads_that_soon_sleep() -> dict[str, str]:
    """Let the worker's threads spin for a few microseconds only, then sleep, while they wait for one another; the user's word goes first.

    Where something else wants the cores, a thread that spins keeps the very one away that it waits for; where nothing does, one that
    sleeps at once takes long to wake. Tokens/s of one stream on two cores, idle and with two busy processes beside it: GOMP_SPINCOUNT 0:
    42 and 90; 100: 51 and 34 to 78; 200 to 400: 126 to 132 and 52 to 57; 1,000: 128 to 144 and 32; 10,000: 152 and 5.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return {}
    return {"GOMP_SPINCOUNT": "300"}

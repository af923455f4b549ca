"""Keeps an engine worker running, and carries calls to it.

A worker that dies is started again, with growing pauses; one that says nothing for long although it has work counts as dead. Calls that
were open end with `WorkerGone`. A worker loads by itself the LoRAs that a call names, so that nothing has to be told to a new one.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import math
import os
import signal
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.children import Child, ChildGone, Receiver, signal_group
from daemon.engine.base import Stats
from daemon.engine.llama.messages import stats_of, whole
from daemon.engine.llama.protocol import WorkerSettings, error_from_json
from daemon.errors import DataError, EngineError, ReefError
from daemon.files import sha256_file
from daemon.records import JSON, JSONObject

_log = logging.getLogger("reef.engine")
MODULE = "daemon.engine.llama.worker"
READY_S = 120.0  # loading a large model from a slow disk
SILENCE_S = 120.0  # a step takes seconds at most, and the worker speaks after it
_WAIT_FOR_RESTART_S = 15.0
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 30.0
_STEADY_S = 30.0  # a worker that lived so long was no failed start
_LOOKS = 24  # in one silence


class WorkerGone(EngineError):
    """The worker died while this call was open."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What the worker says of its model once it is loaded."""

    context_tokens: int
    pools: bool = False  # texts can be embedded
    fill_in_middle: bool = False
    tool_format: str = ""

    @classmethod
    def of(cls, ready: JSONObject) -> WorkerFacts:
        return cls(
            whole(ready.get("context_tokens")),
            ready.get("pools") is True,
            ready.get("fill_in_middle") is True,
            str(ready.get("tool_format") or ""),
        )


class _Life(Receiver):
    """One life of a worker."""

    def __init__(self, supervisor: Supervisor, restarts: int) -> None:
        self._supervisor = supervisor
        self._restarts = restarts

    def take(self, message: JSONObject) -> None:
        self._supervisor.hear(message, self._restarts)


class Supervisor:
    """See the module. Lives on the event loop."""

    def __init__(
        self, settings: WorkerSettings, log: Path, *, module: str = MODULE, ready_s: float = READY_S, silence_s: float = SILENCE_S
    ) -> None:
        """
        Args:
            ready_s: a worker that has not loaded its model by then is given up.
            silence_s: one with open calls that has said nothing for so long is ended and started again.
        """
        self._settings = settings
        self._log = log
        self._module = module
        self._ready_s = ready_s
        self._silence_s = silence_s
        self.stats = Stats("starting")
        self.facts: WorkerFacts | None = None  # None: no worker has been ready yet
        self._child: Child | None = None
        self._ready = asyncio.Event()
        self._calls: dict[int, asyncio.Queue[JSONObject | WorkerGone]] = {}
        self._ids = itertools.count(1)
        self._task: asyncio.Task[None] | None = None
        self._failure: ReefError | None = None
        self._heard = 0  # messages, of all workers
        self._sha256 = ""
        self._file: tuple[int, ...] = ()
        self._starts_at = 0.0  # when the next worker is tried, on the loop's clock

    @property
    def worker_pid(self) -> int | None:
        """The worker's process id, while it is ready."""
        return self._child.pid if self._child and self._ready.is_set() else None

    async def start(self, sha256: str) -> None:
        """Return when a worker is ready.

        Args:
            sha256: of the model's file; a later worker that would find another file there is not started.

        Raises:
            DataError or EngineError: the model cannot be loaded.
        """
        self._sha256, self._file = sha256, _look(self._settings.model)
        self._task = asyncio.create_task(self._supervise(), name="engine-supervisor")
        ready = asyncio.create_task(self._ready.wait())
        started = False
        try:
            await asyncio.wait({ready, self._task}, timeout=self._ready_s, return_when=asyncio.FIRST_COMPLETED)
            started = self._ready.is_set()
        finally:
            ready.cancel()
            if not started:  # failed, too slow, or nobody waits any more
                await self.stop()
        if not started:
            raise self._failure or EngineError("The engine did not start in time.", f"Its log is {self._log}.")

    async def stop(self) -> None:
        """End the worker, and the calls that are open. Harmless a second time, also while the first is under way."""
        if self._task is not None:
            if not self._task.cancelling():  # twice would interrupt its tidying up
                self._task.cancel()
            await asyncio.wait({self._task})
            self._task = None
        self.stats = Stats("stopped")

    async def call(self, message: JSONObject) -> AsyncGenerator[JSONObject, None]:
        """Send a call and yield its answers; leaving early cancels it.

        Raises:
            WorkerGone: the worker died over it. EngineError: there is none. And what the worker refuses it with.
        """
        child = await self._worker()
        number = next(self._ids)
        queue: asyncio.Queue[JSONObject | WorkerGone] = asyncio.Queue()
        self._calls[number] = queue
        ended = False
        try:
            try:
                await child.send({**message, "id": number})
            except ChildGone as error:
                raise WorkerGone("The engine stopped before it took this request.", "Send the request again.") from error
            while not ended:
                answer = await queue.get()
                if isinstance(answer, WorkerGone):
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

    async def ask(self, message: JSONObject) -> JSON:
        """A call with one result; asked once more if the worker dies over it."""
        for attempt in (1, 2):
            try:
                async with contextlib.aclosing(self.call(message)) as answers:
                    async for answer in answers:
                        return answer.get("value")
            except WorkerGone:
                if attempt == 2:
                    raise
        raise EngineError("The engine gave no answer.", "Send the request again.")

    async def _worker(self) -> Child:
        """The worker that is ready, waited for a little while one restarts."""
        if self._child is not None and self._ready.is_set():
            return self._child
        if self._task is None or self._task.cancelling():
            raise EngineError("The engine is not running.", "Start the daemon again: reef down, reef up.")
        ready = asyncio.create_task(self._ready.wait())
        try:
            await asyncio.wait({ready, self._task}, timeout=_WAIT_FOR_RESTART_S, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ready.cancel()
        if self._child is None or not self._ready.is_set():
            detail = self._failure.message if self._failure else "The engine is not running."
            pause = math.ceil(self._starts_at - asyncio.get_running_loop().time())
            raise EngineError(detail, f"Its log is {self._log}.", retry_after_s=max(1, pause))
        return self._child

    async def _supervise(self) -> None:
        """Keep a worker running. Ends only when the very first one says that it cannot load the model."""
        pause, restarts, loop = _FIRST_PAUSE_S, 0, asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await self._run_worker(restarts)
            except ReefError as error:
                self._failure = error
            if self._failure is not None and restarts == 0 and self.facts is None:
                self.stats = replace(self.stats, state="failed", detail=self._failure.message)
                return
            pause = _FIRST_PAUSE_S if loop.time() - began > _STEADY_S else min(_LONGEST_PAUSE_S, pause * 2)
            restarts += 1
            detail = self._failure.message if self._failure else "The engine worker ended unexpectedly."
            _log.warning("The engine worker is started again in %.1f s: %s", pause, detail)
            self.stats = Stats("restarting", restarts=restarts, detail=detail)
            self._starts_at = loop.time() + pause
            await asyncio.sleep(pause)

    async def _run_worker(self, restarts: int) -> None:
        """One life of a worker, from start to end; its open calls end with it."""
        if restarts:
            await asyncio.to_thread(self._check_file)
        life = _Life(self, restarts)
        child = await Child.start(self._module, [], log=self._log, env=_threads_that_soon_sleep(), receiver=life)
        self._child = child
        watching = asyncio.create_task(self._watch(child), name="engine-watchdog")
        try:
            start: JSONObject = {"type": "start", **self._settings.model_dump(mode="json")}
            await child.send(start)
            await child.delivered()
            if watching.done():
                raise EngineError(f"The engine had said nothing for {self._silence_s:.0f} s and was ended.", f"Its log is {self._log}.")
            raise EngineError("The engine worker ended unexpectedly.", f"Its log is {self._log}.")
        finally:
            watching.cancel()
            self._ready.clear()
            gone = WorkerGone("The engine stopped while it was computing this reply.", "Send the request again.")
            for queue in self._calls.values():
                queue.put_nowait(gone)
            self._child = None
            await child.terminate(grace_s=0.5)

    def hear(self, message: JSONObject, restarts: int) -> None:
        """One message of the worker that has been started again `restarts` times: an answer, or about itself."""
        self._heard += 1
        queue = self._calls.get(call) if isinstance(call := message.get("id"), int) else None
        if queue is not None:
            queue.put_nowait(message)
        else:
            self._about_itself(message, restarts)

    def _check_file(self) -> None:
        """Raises DataError for a file that is not the one that was loaded first: releases name its hash."""
        model = self._settings.model
        found = _look(model)
        if found != self._file:
            try:
                same = bool(found) and sha256_file(model) == self._sha256
            except OSError:
                same = False
            if not same:
                what = "was replaced" if found else "is gone"
                raise DataError(f"The model's file {model} {what}.", "Put it back, or serve another: reef models use NAME")
            self._file = found

    def _about_itself(self, message: JSONObject, restarts: int) -> None:
        """What the worker says without being asked; answers to calls that were given up are passed over."""
        kind = message.get("type")
        if kind == "stats":
            self.stats = stats_of(message, restarts)
        elif kind == "ready":
            self.facts = WorkerFacts.of(message)
            self.stats = Stats("ready", restarts=restarts)
            self._failure = None
            self._ready.set()
        elif kind == "failed":
            raise error_from_json(message)

    async def _watch(self, child: Child) -> None:
        """End a worker that is silent although it has work: it hangs in a computation or waits for something that never comes.

        Looks are counted rather than seconds: when this process itself stood still, what the worker said meanwhile is read first.
        """
        silent, heard = 0, self._heard
        while silent < _LOOKS:
            limit_s = self._silence_s if self._ready.is_set() else self._ready_s
            await asyncio.sleep(limit_s / _LOOKS)
            at_work = bool(self._calls) or not self._ready.is_set()
            silent = silent + 1 if at_work and heard == self._heard else 0
            heard = self._heard
        signal_group(child.pid, signal.SIGKILL)


def _look(path: Path) -> tuple[int, ...]:
    """What tells a file from one that took its place, without reading it; empty where there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _threads_that_soon_sleep() -> dict[str, str]:
    """Let the worker's threads spin for a few microseconds only, then sleep, while they wait for one another; the user's word goes first.

    Where something else wants the cores, a thread that spins keeps the very one away that it waits for; where nothing does, one that
    sleeps at once takes long to wake. Tokens/s of one stream on two cores, idle and with two busy processes beside it: GOMP_SPINCOUNT 0:
    42 and 90; 100: 51 and 34 to 78; 200 to 400: 126 to 132 and 52 to 57; 1,000: 128 to 144 and 32; 10,000: 152 and 5.
    """
    if "OMP_WAIT_POLICY" in os.environ or "GOMP_SPINCOUNT" in os.environ:
        return {}
    return {"GOMP_SPINCOUNT": "300"}

"""One run process under watch: its messages, its pulse, its time, its trainer stopped while live requests run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

from daemon.children import Child, ChildGone
from daemon.config import Config
from daemon.engine.base import LoRA
from daemon.errors import BadRequest, DataError, EngineError, ReefError, StorageError
from daemon.evolution.job import CANDIDATE, JOB_FILE, RunJob
from daemon.files import sha256_file
from daemon.marked import RUN_MARK, kill, kill_run, run_mark
from daemon.paths import Home
from daemon.records import JSONObject
from daemon.serving.serving import Serving
from daemon.serving.snapshot import Snapshot
from daemon.serving_hints import ServingHints

PULSE_LIMIT_S = 120.0
"""A run process that says nothing for so long has a recipe that holds the interpreter, and is ended."""
RESUME_AFTER_S = 0.25
"""The trainer goes on after so long without a live request, so that it does not stutter between the requests of one agent."""
_EVALUATION_MINUTES = 60.0
_ENDING_S = 10.0
_LAST_WORDS_S = 1.0


class Supervision:
    """Runs one job's process to its end."""

    def __init__(self, job: RunJob, serving: Serving, config: Config, note: Callable[[JSONObject], Awaitable[None]]) -> None:
        """`note` is told every event but heartbeats."""
        self._job = job
        self._serving = serving
        self._note = note
        self._limit_s = 60 * (config.training.max_minutes + _EVALUATION_MINUTES)
        self._teacher_key = config.teacher.api_key_env if config.teacher is not None else None
        self._last_message = time.monotonic()
        self._trainer: int | None = None
        self._failure: JSONObject | None = None
        self._has_result = False
        self.lora: LoRA | None = None
        """The candidate's new LoRA, once it was offered."""

    async def run(self) -> None:
        """Return once the process has written its outcome.

        Raises:
            ReefError: the run failed, hung, took too long, or was killed; with its own sentence where it gave one.
        """
        job = self._job
        environment = {RUN_MARK: run_mark(job.folder)}
        if self._teacher_key is not None and self._teacher_key in os.environ:
            environment[self._teacher_key] = os.environ[self._teacher_key]
        child = await Child.start(
            "daemon.evolution.run_process",
            [str(job.folder / JOB_FILE)],
            log=job.folder / "run.log",
            nice=job.training.nice,
            env=environment,
        )
        self._last_message = time.monotonic()
        watchers = [asyncio.create_task(self._watch_pulse(child)), asyncio.create_task(self._yield_to_requests(child))]
        reading, gone = asyncio.create_task(self._read(child)), asyncio.create_task(child.wait())
        try:
            async with asyncio.timeout(self._limit_s):
                await asyncio.wait([reading, gone, watchers[0]], return_when=asyncio.FIRST_COMPLETED)
                if gone.done():  # no end of its stdout comes while something that it has started holds that open
                    await asyncio.wait([reading], timeout=_LAST_WORDS_S)
                for task in (reading, watchers[0]):
                    if task.done():
                        task.result()
                await asyncio.wait([gone], timeout=_ENDING_S)
                code = gone.result() if gone.done() else None
        except TimeoutError as error:
            raise DataError(f"The run took longer than {self._limit_s / 60:g} minutes.", f"See {child.log}.") from error
        finally:
            for running in (*watchers, reading, gone):
                running.cancel()
            started = await asyncio.to_thread(_descendants, child.pid)
            await child.terminate(grace_s=1)
            await asyncio.to_thread(kill, started)
            await asyncio.to_thread(kill_run, job.folder)
            await asyncio.gather(*watchers, reading, gone, return_exceptions=True)
        if self._failure is not None:
            raise _failure(self._failure)
        if code is None and not self._has_result:
            raise DataError("The run process told no result and did not end.", f"Its log is {child.log}.")
        if code:
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            raise DataError(f"The run process ended {how}.", f"Its log is {child.log}.")

    async def _read(self, child: Child) -> None:
        async for message in child.messages():
            self._last_message = time.monotonic()
            kind = message.get("type")
            if kind == "heartbeat":
                continue
            if kind == "trainer":
                pid = message.get("pid")
                self._trainer = pid if isinstance(pid, int) else None
                if self._serving.activity.in_flight:
                    self._signal_trainer(child, signal.SIGSTOP)
            elif kind == "failed":
                self._failure = message
            await self._note(message)
            if kind in ("failed", "result"):
                self._has_result = True
                return  # its outcome is on disk; a thread of the recipe's may keep the process from ending
            if kind == "candidate":
                await self._offer(child, message)

    async def _offer(self, child: Child, message: JSONObject) -> None:
        """Load the candidate beside what serves, so that evaluation can ask for it by name."""
        job = self._job
        path, lora_id = message.get("lora"), message.get("lora_id")
        try:
            lora = None
            if isinstance(path, str) and isinstance(lora_id, str):
                lora = self.lora = await asyncio.to_thread(_keep_lora, job, job.folder / path, lora_id)
            current = await self._serving.resolve(job.scenario, job.release.id)
            hints = ServingHints.model_validate(message.get("hints"))
            snapshot = Snapshot(job.scenario, CANDIDATE, lora or current.lora, hints)
            self._serving.offer(job.run_id, CANDIDATE, snapshot)
            lease = await self._serving.borrow(job.scenario, CANDIDATE, job.run_id)
            lease.release()
            answer: JSONObject = {"type": "candidate_ready"}
        except ReefError as error:
            self._serving.withdraw(job.run_id)
            answer = {"type": "candidate_refused", "message": error.message, "hint": error.hint}
        with contextlib.suppress(ChildGone):
            await child.send(answer)

    async def _watch_pulse(self, child: Child) -> None:
        while (silent := time.monotonic() - self._last_message) < PULSE_LIMIT_S:  # noqa: ASYNC110 - it is the absence of events
            await asyncio.sleep(min(5.0, PULSE_LIMIT_S - silent + 0.01))
        raise DataError(f"The run process has hung: it said nothing for {PULSE_LIMIT_S:g} s.", f"Its log is {child.log}.")

    async def _yield_to_requests(self, child: Child) -> None:
        """Stop the trainer while live requests are in flight. The run process itself only waits, so it goes on."""
        activity = self._serving.activity
        while True:
            await activity.wait_busy()
            self._signal_trainer(child, signal.SIGSTOP)
            while True:
                await activity.wait_free()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(activity.wait_busy(), RESUME_AFTER_S)
                    continue
                break
            self._signal_trainer(child, signal.SIGCONT)

    def _signal_trainer(self, child: Child, number: signal.Signals) -> None:
        """Signal the trainer's group, after making sure that the id still is a descendant of this run: ids are reused."""
        pid = self._trainer
        if pid is None:
            return
        try:
            trainer = psutil.Process(pid)
            if child.pid not in [parent.pid for parent in trainer.parents()] or os.getpgid(pid) != pid:
                return
            os.killpg(pid, number)
        except (psutil.Error, ProcessLookupError, PermissionError):
            return


def _descendants(pid: int) -> list[psutil.Process]:
    """What a run process has started: the trainer, a checker's command; they have groups of their own, so ending its group misses them."""
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.Error:
        return []


def _keep_lora(job: RunJob, path: Path, lora_id: str) -> LoRA:
    """Copy the candidate's LoRA to where a release's would lie: the engine keeps that path, and the run's folder is tidied."""
    if not path.resolve().is_relative_to(job.folder.resolve()):
        raise DataError("The candidate's LoRA lies outside of the run's folder.", "Write it below context.workdir.")
    target = Home(job.home).loras / f"{lora_id}.gguf"
    if not target.is_file():
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{job.run_id}.tmp")
        try:
            shutil.copyfile(path, temporary)
            if sha256_file(temporary) != lora_id:
                raise DataError("The candidate's LoRA changed while it was read.", "Run the recipe again.")
            os.replace(temporary, target)
        except OSError as error:
            raise StorageError(f"Cannot copy the LoRA to {target}: {error.strerror}.", "Free disk space, then try again.") from error
        finally:
            temporary.unlink(missing_ok=True)
    return LoRA(lora_id, target)


def _failure(event: JSONObject) -> ReefError:
    """The run's own sentence."""
    message, hint = event.get("message"), event.get("hint")
    kind: type[ReefError] = EngineError if event.get("code") == EngineError.code else BadRequest
    return kind(message if isinstance(message, str) else "The run failed.", hint if isinstance(hint, str) else "")

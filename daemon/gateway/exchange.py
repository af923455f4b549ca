"""One generation, recorded before anybody is told that it ended: in a task of its own where there is somebody to tell its steps to.

The pump does not wait for a slow client. When the client hangs up, the generation stops, its place is free at once, and what was
generated is recorded as aborted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TypeAlias

from daemon.engine.base import Delta, Engine, Event, Finished, GenerateRequest, Passed, Progress
from daemon.errors import EngineError, ReefError
from daemon.failpoints import failpoint
from daemon.frozen import dataclass
from daemon.gateway.reply import ReplyBuilder
from daemon.gateway.steps import Done, Failed, Frame, Piece, Reading, Step, Steps
from daemon.records import Inference, JSONObject, Status, TokenTrace, Usage
from daemon.serving.serving import Lease
from daemon.serving.snapshot import Snapshot

Draft: TypeAlias = Callable[..., Inference]
_log = logging.getLogger("reef.gateway")


class Recorder(ABC):
    """Keeps what was generated."""

    @abstractmethod
    async def record(self, inference: Inference) -> None:
        """Return when it is durable. Raises `StorageError`."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What the engine says of a whole reply."""

    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    tokens: TokenTrace | None = None
    note: str = ""
    cache_miss: str = ""


class Exchange:
    """See the module. It tells its steps; the last is `Done` or `Failed`."""

    def __init__(
        self,
        engine: Engine,
        recorder: Recorder,
        lease: Lease,
        request: GenerateRequest,
        receipts: Sequence[str],
        drafts: Sequence[Draft],
        steps: Steps,
        index: int,
        running: set[Exchange],
    ) -> None:
        """
        Args:
            receipts: the record's id; where the request is passed on, one a choice that it asks for.
            drafts: for each of them what makes the record, once the reply is known.
            lease: released when the generation has ended.
            steps: where it tells what happens, as choice `index`.
            running: where it is listed until it has ended.
        """
        self._engine = engine
        self._recorder = recorder
        self._lease = lease
        self._request = request
        self._receipts = receipts
        self._drafts = drafts
        self._steps = steps
        self._index = index
        self._replies = [ReplyBuilder() for _ in drafts]
        self._logprobs: list[JSONObject] = []
        self._held: list[bytes] = []
        self._stop_sequence = ""
        self._started = time.monotonic()
        self._first_token_ms = 0.0
        self._admitted = False
        self._generated = False
        self._aborted = False
        self._ended: Done | Failed | None = None
        self._task: asyncio.Task[object] | None = None
        self._running = running
        running.add(self)

    def start(self) -> None:
        """Generate in a task of its own; the steps tell how it goes."""
        task = asyncio.create_task(self._pump())
        task.add_done_callback(self._close)  # runs even if the task is cancelled before its first step
        self._task = task

    async def run(self) -> Done | Failed:
        """Generate in the caller's task, and return the last step: where nobody waits for the others, a task of its own would cost more
        than the work in it. Whoever cancels the caller's task gets its cancellation once what was generated is recorded."""
        self._task = asyncio.current_task()
        try:
            if not self._aborted:
                await self._pump()
        finally:
            self._close()
        return self._ended or Failed(EngineError("The request was aborted."))

    @property
    def record_id(self) -> str:
        return self._receipts[0]

    @property
    def passes(self) -> bool:
        """Whether another server makes all choices of the request, which is passed on to it."""
        return self._request.forward is not None

    @property
    def snapshot(self) -> Snapshot:
        """The release that answers."""
        return self._lease.snapshot

    @property
    def alone(self) -> bool:
        """Whether it makes one reply that comes whole, all by itself: then it may as well `run`."""
        forward = self._request.forward
        return forward is not None and not forward.stream and len(self._drafts) == 1

    @property
    def task(self) -> asyncio.Task[object] | None:
        """Ends when the generation is over and recorded; None: it has not begun."""
        return self._task

    def abort(self) -> None:
        """Stop generating; what there is gets recorded as aborted. Without effect once the reply is complete, and the second time."""
        if not self._generated and not self._aborted:  # a second cancellation could interrupt the first one's tidying up
            self._aborted = True
            if self._task is not None:
                self._task.cancel()
            else:
                self._close()

    async def _pump(self) -> None:
        end: Done | Failed
        try:
            finished = await self._generate()
            failpoint("admission.engine-answered")
            self._generated = True  # from here on a hang-up changes nothing: the record must not be lost
            end = await self._keep(self._completed(finished))
        except asyncio.CancelledError:
            if self._generated:  # by somebody else than `abort`: the record is on its way
                raise
            if self._aborted and self._task is not None:
                self._task.uncancel()
            end = await self._broken(Status.ABORTED, EngineError("The request was aborted."))
        except ReefError as error:
            end = await self._broken(Status.ERROR, error)
        except Exception:  # noqa: BLE001 - the top of this task: a bug below must not leave the client waiting
            _log.exception("A generation failed")
            end = await self._broken(Status.ERROR, EngineError("The engine failed.", "The daemon's log has the details: reef logs."))
        self._ended = end
        self._tell(end)

    def _close(self, task: asyncio.Task[None] | None = None) -> None:
        self._lease.release()
        self._running.discard(self)
        if self._ended is not None:
            return
        if task is None or task.cancelled():  # before its first step
            self._tell(Failed(EngineError("The request was aborted.")))
        else:
            _log.error("A generation could not be ended", exc_info=task.exception())
            self._tell(Failed(EngineError("The engine failed.", "The daemon's log has the details: reef logs.")))

    async def _generate(self) -> Finished:
        if self.alone:
            for event in await self._engine.whole(self._request):
                if (finished := self._see(event)) is not None:
                    return finished
        else:
            # Closed whatever happens: that frees its place in the engine at once.
            patient = bool(self._engine.wires)  # another server waits by itself, and its replies can be long
            async with contextlib.aclosing(self._engine.generate(self._request)) as events:
                async for event in events:
                    if (finished := self._see(event)) is not None:
                        return finished
                    if patient and self._steps.full:
                        await self._steps.room()
        raise EngineError("The engine ended the reply without saying so.", "Send the request again.")

    def _see(self, event: Event) -> Finished | None:
        """Take in what the engine says, and tell it; its last word is for the caller."""
        self._admitted = True
        if isinstance(event, Passed):
            self._pass(event)
        elif isinstance(event, Delta):
            self._tell(Piece(self._take(event), event.logprobs))
        elif isinstance(event, Progress):
            self._tell(Reading(event.total_tokens))
        else:
            return event
        return None

    def _take(self, delta: Delta) -> JSONObject:
        if not self._first_token_ms:
            self._first_token_ms = self._elapsed_ms()
        if delta.choice:
            return self._replies[delta.choice].add(delta) if delta.choice < len(self._replies) else {}
        self._logprobs += delta.logprobs
        return self._replies[0].add(delta)

    def _pass(self, part: Passed) -> None:
        """Tell what does not end the reply at once; what may end it waits for the record."""
        for delta in part.said:
            self._take(delta)
        if part.closing:
            self._held.append(part.data)
            return
        for data in (*self._held, part.data):
            self._tell(Frame(data))
        self._held.clear()

    def _completed(self, finished: Finished) -> list[Inference]:
        """One record a choice; the first has the usage of all."""
        self._stop_sequence = finished.stop_sequence
        said = _Said(finished.usage, finished.tokens, finished.note, finished.cache_miss)
        reasons = [finished.finish_reason, *finished.further][: len(self._drafts)]
        return [self._record(place, self._reason(place, reason), said if place == 0 else _Said()) for place, reason in enumerate(reasons)]

    def _reason(self, place: int, said: str) -> str:
        return "tool_calls" if self._replies[place].has_tool_calls and said == "stop" else said

    def _record(self, place: int, finish_reason: str, said: _Said, status: Status = Status.OK, error: str = "") -> Inference:
        return self._drafts[place](
            reply=self._replies[place].message(),
            first_token_ms=self._first_token_ms,
            total_ms=self._elapsed_ms(),
            finish_reason=finish_reason,
            usage=said.usage,
            tokens=said.tokens,
            note=said.note,
            cache_miss=said.cache_miss,
            status=status,
            error=error,
        )

    async def _broken(self, status: Status, error: ReefError) -> Failed:
        """A request that the engine never took is no experience: only what began is recorded."""
        self._generated = True
        if not self._admitted:
            return Failed(error)
        reason = "aborted" if status is Status.ABORTED else "error"
        begun = [place for place, reply in enumerate(self._replies) if place == 0 or reply.begun]
        records = [self._record(place, reason, _Said(), status, error.message) for place in begun]
        end = await self._keep(records)
        return Failed(error, end.inference, end.further) if isinstance(end, Done) else end

    async def _keep(self, records: Sequence[Inference]) -> Done | Failed:
        first, *further = records
        try:
            if further:
                await asyncio.gather(*(self._recorder.record(record) for record in records))
            else:
                await self._recorder.record(first)
        except ReefError as error:
            _log.error("A record could not be stored: %s", error)
            return Failed(error)
        return Done(first, tuple(self._logprobs), self._stop_sequence, tuple(further), tuple(self._held))

    def _tell(self, step: Step) -> None:
        self._steps.put(self._index, step)

    def _elapsed_ms(self) -> float:
        return (time.monotonic() - self._started) * 1000

"""Who is computed next, token by token.

Live sequences share a batch; each has a slot. A long prompt is read in pieces between the steps of the running streams, so that they
keep flowing; several prompts take turns. A decode call holds sequences of one LoRA, and a LoRA keeps its turn for a few steps, because
changing it costs. Evaluation and runs are computed only while no live sequence can go on, each alone: their numbers must not depend on
what else runs. Only the worker's main thread is in here; messages come in through `submit` and `cancel`.
"""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Sequence as Rows
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from daemon.engine.base import Priority
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.messages import delta_message
from daemon.engine.llama.model import MIN_PIECE, LoRAHandle, Row
from daemon.engine.llama.protocol import error_to_json
from daemon.engine.llama.sampling import log_softmax
from daemon.engine.llama.sequence import Job, Score, Sequence
from daemon.engine.llama.slots import SIDE_SLOTS, Slots
from daemon.errors import ReefError
from daemon.records import JSONObject

LORA_TURN_STEPS = 8  # steps of one LoRA before the next one's turn
ALONE_CHUNK = 64  # tokens of a prompt a step for what is computed alone: bounds how long a live request waits for its end
LONE_READ_CHUNK = 128  # while no stream is flowing: bounds how long a newcomer waits
_READ_CHUNKS = (128, 64, 32, 16)  # while streams flow: the largest that keeps the gap between tokens small
_GAP = 1.5  # reading may take this many times as long as the streams' own step


class Tokens(Protocol):
    """The vocabulary, as far as it is needed here."""

    def piece(self, token: int, *, special: bool = False) -> bytes: ...

    def ends(self, token: int) -> bool: ...


class Decoder(Protocol):
    """The model, as far as it is needed here."""

    def decode(self, rows: Rows[Row], lora: LoRAHandle | None) -> NDArray[np.float32]: ...

    def truncate(self, slot: int, length: int) -> int: ...


class Scheduler:
    """Queues, slots and the choice of the next step. `step` returns the messages that it gave rise to."""

    def __init__(self, decoder: Decoder, tokens: Tokens, loras: LoadedLoRAs, streams: int) -> None:
        self._decoder = decoder
        self._tokens = tokens
        self._loras = loras
        self._slots = Slots(0, streams)
        self._side_slots = Slots(streams, SIDE_SLOTS)
        self._waiting: dict[Priority, deque[Job]] = {priority: deque() for priority in Priority}
        self._live: list[Job] = []
        self._alone: Job | None = None
        self._lora: str | None = None  # whose turn it is
        self._turn_left = LORA_TURN_STEPS
        self._reader = 0  # takes turns among prompts
        self._step_s = 0.05  # a step of the running streams, smoothed
        self._read_s = 0.008  # reading one token, smoothed

    @property
    def active(self) -> int:
        return len(self._live) + (self._alone is not None)

    @property
    def queued(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def waiting(self, priority: Priority) -> int:
        """Jobs of this priority that have no place yet."""
        return len(self._waiting[priority])

    def submit(self, job: Job) -> None:
        """Queue a job. Raises EngineError if its LoRA is not loaded."""
        if job.lora_id is not None:
            self._loras.acquire(job.lora_id)
        self._waiting[job.priority].append(job)

    def cancel(self, call: int) -> None:
        """Forget a job and free its place; unknown ids are those that have just ended."""
        for queue in self._waiting.values():
            for job in queue:
                if job.id == call:
                    queue.remove(job)
                    self._release(job)
                    return
        for job in [*self._live, *([self._alone] if self._alone else [])]:
            if job.id == call:
                self._leave(job)
                return

    def step(self) -> list[JSONObject]:
        """Compute one step of whoever comes first. Returns an empty list if there is nothing to do or nothing to say."""
        self._admit()
        if self._live:
            return self._live_step()
        if self._alone is not None:
            return self._alone_step(self._alone)
        return []

    def _admit(self) -> None:
        queue = self._waiting[Priority.LIVE]
        while queue and self._seat(queue[0], self._slots):
            self._live.append(queue.popleft())
        if self._alone is None and not self._live:
            for priority in (Priority.EVALUATION, Priority.RUN):
                queue = self._waiting[priority]
                if queue and self._seat(queue[0], self._side_slots):
                    self._alone = queue.popleft()
                    return

    def _seat(self, job: Job, slots: Slots) -> bool:
        """Give a job its slot, and keep what that already holds of its prompt. False if all are busy."""
        taken = slots.take(job.prompt, job.lora_id)
        if taken is None:
            return False
        slot, shared = taken
        # A score wants the logits of every token; a reply those of the last, in a piece that is not too small.
        shared = 0 if isinstance(job, Score) else max(0, min(shared, len(job.prompt) - MIN_PIECE))
        job.slot = slot
        job.read = job.cached = self._decoder.truncate(slot.index, shared)
        slot.lora_id = job.lora_id
        slot.cells = job.prompt[: job.read]
        return True

    def _live_step(self) -> list[JSONObject]:
        lora = self._turn()
        members = [job for job in self._live if job.lora_id == lora]
        flowing = [job for job in members if isinstance(job, Sequence) and job.completion]
        reading = [job for job in members if job.unread > 0]
        messages: list[JSONObject] = []
        if flowing:
            began = time.perf_counter()
            messages += self._advance(flowing)
            self._step_s = 0.8 * self._step_s + 0.2 * (time.perf_counter() - began)
        if reading:
            self._reader += 1
            job = reading[self._reader % len(reading)]
            chunk = LONE_READ_CHUNK
            if any(isinstance(other, Sequence) and other.completion for other in self._live):
                room = _GAP * self._step_s / self._read_s
                chunk = next((size for size in _READ_CHUNKS if size <= room), _READ_CHUNKS[-1])
            messages += self._read(job, chunk)
        return messages

    def _turn(self) -> str | None:
        """The LoRA of this step: the one before it, until its turn is over or nobody wants it."""
        wanted = list(dict.fromkeys(job.lora_id for job in self._live))
        self._turn_left -= 1
        if self._lora not in wanted or (self._turn_left <= 0 and len(wanted) > 1):
            after = wanted.index(self._lora) + 1 if self._lora in wanted else 0
            self._lora = wanted[after % len(wanted)]
            self._turn_left = LORA_TURN_STEPS
        return self._lora

    def _alone_step(self, job: Job) -> list[JSONObject]:
        return self._read(job, ALONE_CHUNK) if job.unread else self._advance([job])

    def _advance(self, jobs: Rows[Job]) -> list[JSONObject]:
        """One token for each of these sequences, which have read their prompts."""
        ordered = sorted((job for job in jobs if isinstance(job, Sequence) and job.slot), key=lambda job: job.slot.index if job.slot else 0)
        rows = [Row(job.completion[-1], len(job.slot.cells), job.slot.index, True) for job in ordered if job.slot]
        try:
            logits = self._decoder.decode(rows, self._loras.handle(ordered[0].lora_id))
        except ReefError as error:
            return list(itertools.chain.from_iterable(self._fail(job, error) for job in ordered))
        messages: list[JSONObject] = []
        for job, row, values in zip(ordered, rows, logits, strict=True):
            if job.slot:
                job.slot.cells.append(row.token)
            messages += self._sample(job, values)
        return messages

    def _read(self, job: Job, limit: int) -> list[JSONObject]:
        """Read the next piece of a prompt; at its end, sample the first token."""
        if job.slot is None:
            return []
        size = job.unread if job.unread < limit + MIN_PIECE else limit
        piece = job.prompt[job.read : job.read + size]
        last = job.read + len(piece) == len(job.prompt)
        scored = isinstance(job, Score)
        rows = [
            Row(token, job.read + index, job.slot.index, scored or (last and index == len(piece) - 1)) for index, token in enumerate(piece)
        ]
        began = time.perf_counter()
        try:
            logits = self._decoder.decode(rows, self._loras.handle(job.lora_id))
        except ReefError as error:
            return self._fail(job, error)
        self._read_s = 0.8 * self._read_s + 0.2 * (time.perf_counter() - began) / len(piece)
        job.slot.cells += piece
        job.read += len(piece)
        if isinstance(job, Score):
            return self._scored(job, piece, logits)
        if isinstance(job, Sequence) and last:
            return self._sample(job, logits[0])
        return [{"type": "progress", "id": job.id, "done": job.read, "total": len(job.prompt)}]

    def _scored(self, job: Score, piece: list[int], logits: NDArray[np.float32]) -> list[JSONObject]:
        following = job.prompt[job.read - len(piece) + 1 : job.read + 1]
        normal = log_softmax(logits[: len(following)])
        job.values += [min(0.0, float(value)) for value in normal[np.arange(len(following)), following]]
        if job.unread:
            return []
        self._leave(job)
        return [job.result()]

    def _sample(self, job: Sequence, logits: NDArray[np.float32]) -> list[JSONObject]:
        token, logprob, _ = job.sampler.choose(logits)
        shown = job.accept(token, logprob, self._tokens.piece(token), self._tokens.ends(token))
        messages = [delta_message(job.id, delta) for delta in shown]
        if job.finish_reason:
            self._leave(job)
            messages.append(job.finished())
        return messages

    def _fail(self, job: Job, error: ReefError) -> list[JSONObject]:
        """End a job whose cells are unknown now."""
        if job.slot is not None:
            job.slot.cells = job.slot.cells[: self._decoder.truncate(job.slot.index, 0)]
        self._leave(job)
        return [error_to_json(job.id, error)]

    def _leave(self, job: Job) -> None:
        """Give back the slot; what it holds stays for a prompt that begins alike."""
        if job is self._alone:
            self._alone = None
            if job.slot is not None:
                # Cells of generated tokens differ in the last bits from those of the same tokens read; evaluation repeats exactly.
                job.slot.cells = job.slot.cells[: job.read]
            self._give_back(job, self._side_slots)
        else:
            self._live.remove(job)
            self._give_back(job, self._slots)
        self._release(job)

    def _give_back(self, job: Job, slots: Slots) -> None:
        if job.slot is not None:
            slots.give_back(job.slot)
            job.slot = None

    def _release(self, job: Job) -> None:
        if job.lora_id is not None:
            self._loras.release(job.lora_id)

"""Who is computed next, token by token.

Live sequences share a batch; each has a slot. A step is one token for the streams of the LoRA whose turn it is, then one piece of one
prompt, under its own LoRA, small enough that the streams keep flowing. Evaluation and runs are computed only while there is no live
request, each alone, evaluation first: their numbers must not depend on what else runs. Only the worker's main thread is in here.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from daemon.engine.base import Priority
from daemon.engine.llama.cache.cache_misses import Conversations
from daemon.engine.llama.cache.prefix_cache import PrefixCache
from daemon.engine.llama.computer import Computer, Decoder, Tokens
from daemon.engine.llama.fair_queue import QUEUE_LIMIT, FairQueue
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.pace import Pace
from daemon.engine.llama.sequence import Job, Sequence
from daemon.engine.llama.side_lane import PRIORITIES, SideLane
from daemon.engine.llama.turns import Turns
from daemon.errors import Busy
from daemon.records import JSON, JSONObject

SIDE_PIECE = 64  # tokens of a prompt a step for what is computed alone: bounds how long a live request waits for its end
WHOLE_PIECE = 64  # tokens at once where every one of them has an output: they take memory


class Scheduler:
    """Queues, slots and the choice of the next step. `step` returns the messages that it gave rise to."""

    def __init__(self, decoder: Decoder, tokens: Tokens, loras: LoadedLoRAs, streams: int, cache_bytes: int, pace: Pace) -> None:
        self._loras = loras
        self._streams = streams
        self._pace = pace
        self._computer = Computer(decoder, tokens, loras, self._pace)
        self._cache = PrefixCache(decoder, streams, cache_bytes, self._pace)
        self._conversations = Conversations()
        self._side = SideLane(decoder, streams)
        self._waiting = {priority: FairQueue() for priority in Priority}
        self._live: list[Job] = []
        self._turns = Turns()
        self._reader = 0  # takes turns among prompts

    @property
    def active(self) -> int:
        return len(self._live) + len(self._side.jobs)

    @property
    def queued(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def generated_tokens(self) -> int:
        return self._computer.generated_tokens

    def cache_stats(self) -> JSONObject:
        """As `CacheStats`."""
        misses: dict[str, JSON] = dict(self._conversations.misses)
        return {
            "read_tokens": self._cache.read_tokens,
            "reused_tokens": self._cache.reused_tokens,
            "held_bytes": self._cache.held_bytes,
            "limit_bytes": self._cache.limit_bytes,
            "misses": misses,
        }

    def submit(self, job: Job) -> None:
        """Queue a job, whose LoRA its maker has acquired; it is released when the job ends. Raises Busy."""
        queue = self._waiting[job.priority]
        if not queue.has_room(job.scenario):
            self._release(job)
            whose = "" if len(queue) >= QUEUE_LIMIT else " of this scenario"
            streams = self._streams if job.priority is Priority.LIVE else 1
            raise Busy(
                f"{len(queue)} requests{whose} are waiting for the engine already.",
                "Try again in a moment, or raise engine.streams.",
                retry_after_s=self._pace.wait_s(len(queue), streams),
            )
        queue.put(job)

    def cancel(self, call: int) -> None:
        """Forget a job and free its place; unknown ids are those that have just ended."""
        for queue in self._waiting.values():
            job = queue.remove(call)
            if job is not None:
                self._release(job)
                return
        for job in [*self._live, *self._side.jobs]:
            if job.id == call:
                self._leave(job)
                return

    def step(self) -> list[JSONObject]:
        """Compute one step of whoever comes first. Returns an empty list if there is nothing to do or nothing to say."""
        self.sweep()
        saved = self._admit()
        if self._live:
            return self._live_step(saved=saved)
        return self._side_step(self._side.jobs[0]) if self._side.jobs else []

    def sweep(self) -> None:
        """Drop what LoRAs that are gone have left."""
        for lora_id in self._loras.sweep():
            self._cache.forget(lora_id)
            self._side.forget(lora_id)

    def _admit(self) -> bool:
        """Seat one live job, or one of each other priority. Returns whether a state was saved for it."""
        saved = False
        if self._cache.has_free_slot and (job := self._waiting[Priority.LIVE].take()) is not None:
            job.began_at = time.monotonic()
            saved = self._cache.seat(job)
            self._live.append(job)
        if self._live:
            return saved
        for priority in PRIORITIES:
            if self._side.has_room(priority) and (job := self._waiting[priority].take()) is not None:
                self._side.seat(job)
        return saved

    def _live_step(self, *, saved: bool) -> list[JSONObject]:
        """A token for each stream of a group; then a piece of a prompt, or a state copied, which may take as long: one of them."""
        flowing = [job for job in self._live if isinstance(job, Sequence) and job.completion]
        if not flowing:
            return self._read_on([])
        lora = self._turns.next(list(dict.fromkeys(job.lora_id for job in flowing)))
        group = [job for job in flowing if job.lora_id == lora]
        messages = self._computer.advance(group)
        self._dismiss(group)
        return messages if saved else messages + self._read_on(group)

    def _read_on(self, group: list[Sequence]) -> list[JSONObject]:
        """Bring in what there is of a new prompt; else, or if no stream flows, read a piece of one."""
        new = next((job for job in self._live if not job.is_placed and self._cache.place(job)), None)
        if new is not None:
            if isinstance(new, Sequence):
                self._conversations.begin(new)
            if group and new.cached:
                return []
        reading = [job for job in self._live if job.unread and job.is_placed]
        if not reading:
            return []
        self._reader += 1
        job = reading[self._reader % len(reading)]
        size = self._pace.piece(len(group), another_lora=any(other.lora_id != job.lora_id for other in group[:1]))
        return self._read(job, size if isinstance(job, Sequence) else min(size, WHOLE_PIECE))

    def _side_step(self, job: Job) -> list[JSONObject]:
        """A piece of its text, or a token of its reply."""
        if isinstance(job, Sequence) and not job.unread:
            messages = self._computer.advance([job])
            self._dismiss([job])
            return messages
        return self._read(job, SIDE_PIECE)

    def _read(self, job: Job, size: int) -> list[JSONObject]:
        messages = self._computer.read(job, size)
        self._dismiss([job])
        return messages

    def _dismiss(self, jobs: Iterable[Job]) -> None:
        for job in jobs:
            if job.is_over:
                self._leave(job)

    def _leave(self, job: Job) -> None:
        """Give back the slot; what it holds stays for a prompt that begins alike."""
        if not self._side.leave(job):
            self._live.remove(job)
            self._pace.ended(time.monotonic() - job.began_at)
            if isinstance(job, Sequence) and job.is_placed:
                self._conversations.end(job)
            if job.slot is not None:
                self._cache.give_back(job.slot)
                job.slot = None
        self._release(job)

    def _release(self, job: Job) -> None:
        if job.lora_id is not None:
            self._loras.release(job.lora_id)

"""Evaluation and runs: at most one job of each at a time, computed alone, in slots of their own.

These hold cells of prompts only: those of generated tokens differ in the last bits from the same tokens read, and evaluation repeats
exactly, whatever ran before or runs beside it.
"""

from __future__ import annotations

from daemon.engine.base import Priority
from daemon.engine.llama.cache.saved_states import States
from daemon.engine.llama.cache.slots import SIDE_SLOTS, Slots
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.sequence import Job

PRIORITIES = (Priority.EVALUATION, Priority.RUN)
"""In the order in which they go; there is a slot for each."""


class SideLane:
    """See the module."""

    def __init__(self, model: States, first_slot: int) -> None:
        self._model = model
        self._slots = Slots(first_slot, SIDE_SLOTS)
        self._jobs: dict[Priority, Job] = {}

    @property
    def jobs(self) -> list[Job]:
        """The one whose turn it is first."""
        return [self._jobs[priority] for priority in PRIORITIES if priority in self._jobs]

    def has_room(self, priority: Priority) -> bool:
        return priority not in self._jobs

    def seat(self, job: Job) -> None:
        """Give the job a slot, with what that holds of its prompt but for the last piece."""
        slot, shared = self._slots.take(job.prefix, job.lora_id)
        kept = max(0, min(shared, len(job.prefix) - MIN_PIECE))
        job.slot, job.read = slot, self._model.truncate(slot.index, kept)
        job.cached, job.is_placed = job.read, True
        slot.lora_id, slot.cells = job.lora_id, job.prompt[: job.read]
        self._jobs[job.priority] = job

    def leave(self, job: Job) -> bool:
        """Take the job out and keep its prompt's cells. False: it is not in here."""
        if self._jobs.get(job.priority) is not job:
            return False
        del self._jobs[job.priority]
        if job.slot is not None:
            job.slot.cells = job.slot.cells[: job.read]
            self._slots.give_back(job.slot)
            job.slot = None
        return True

    def forget(self, lora_id: str) -> None:
        """The LoRA is gone, and what was computed under it."""
        self._slots.forget(lora_id)

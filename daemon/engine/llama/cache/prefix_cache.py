"""What was computed before and need not be again: the slots of live requests, and states saved from them, under one prefix tree.

A prompt takes the most that anyone holds of its beginning: its slot in place, else a copy of another slot, busy or not, or of a saved
state. What only one slot holds is saved before the slot is given to another prompt. Where somebody is reading the same beginning right
now, a prompt waits for it rather than read the same tokens twice. Saved states go by age, and when a newer one goes on with them.
"""

from __future__ import annotations

import time

from daemon.engine.llama.cache.prefix_tree import PrefixTree
from daemon.engine.llama.cache.saved_states import Saved, SavedStates, States, Tree
from daemon.engine.llama.cache.slots import Slot
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.pace import WORTHWHILE, Pace
from daemon.engine.llama.sequence import Job


class PrefixCache:
    """Seats live jobs. A job that is seated may have to wait for its cells: ask `place` before each step until it says yes."""

    def __init__(self, model: States, streams: int, limit_bytes: int, pace: Pace) -> None:
        self._model = model
        self._pace = pace
        self._slots = [Slot(index=index) for index in range(streams)]
        self._tree: Tree = PrefixTree()
        self._saved = SavedStates(model, self._tree, limit_bytes)
        self._clock = 0
        self.read_tokens = 0
        self.reused_tokens = 0

    @property
    def held_bytes(self) -> int:
        return self._saved.held_bytes

    @property
    def limit_bytes(self) -> int:
        return self._saved.limit_bytes

    @property
    def has_free_slot(self) -> bool:
        return any(not slot.busy for slot in self._slots)

    def seat(self, job: Job) -> bool:
        """Give the job a free slot, where least is lost: one that it goes on with, an empty one, one beside a busy one, the longest unused.

        Returns:
            Whether its cells were saved, which may take as long as reading a piece.
        """
        shares = self._tree.find(job.lora_id, job.prefix)
        best = max((holder for holder in shares if isinstance(holder, Saved)), key=lambda holder: shares[holder], default=None)
        if best is not None:
            self._saved.touch(best)
        free = [slot for slot in self._slots if not slot.busy]
        losses = {slot: self._loss(slot, shares.get(slot, 0)) for slot in free}
        slot = min(
            free,
            key=lambda slot: (
                losses[slot] > 0,
                -shares.get(slot, 0) if not losses[slot] else 0,
                len(slot.cells) > 0,
                self._is_apart(slot),
                slot.used_at,
            ),
        )
        if losses[slot]:
            self._saved.keep(slot)
        kept = min(shares.get(slot, 0), len(slot.cells), _reach(job))
        slot.cells = slot.cells[: self._model.truncate(slot.index, kept)]
        slot.busy, slot.lora_id, slot.prompt_tokens = True, job.lora_id, 0
        job.slot, job.is_placed = slot, False
        self._tree.put(job.lora_id, job.prefix, slot)
        return losses[slot] > 0

    def place(self, job: Job) -> bool:
        """Bring in what there is of the job's prompt. False: somebody is reading more of it just now; ask again."""
        slot = job.slot
        if slot is None or job.is_placed:
            return job.is_placed
        best: Slot | Saved | None = None
        most = settled = len(slot.cells)
        coming, size = 0, 0.0
        for holder, shared in self._tree.find(job.lora_id, job.prefix).items():
            if holder is slot:
                continue
            shared = min(shared, _reach(job))
            ready = min(shared, len(holder.cells))
            if isinstance(holder, Slot) and holder.is_read and ready < shared:
                if shared > coming:
                    coming, size = shared, self._saved.cell_bytes * holder.prompt_tokens
            else:
                settled = max(settled, ready)
            if ready > most and (self._model.cuts_states or ready == len(holder.cells)):
                best, most = holder, ready
        can_copy = self._model.cuts_states and size <= self._saved.limit_bytes
        if coming > most and can_copy and self._pace.pays(coming - settled, round(size)):
            return False
        if best is not None:
            self._copy(best, slot, most)
        slot.prompt_tokens = len(job.prefix)
        job.read = job.cached = len(slot.cells)
        job.is_placed = True
        self.reused_tokens += job.cached
        self.read_tokens += job.unread
        return True

    def give_back(self, slot: Slot) -> None:
        """Free the slot; what it holds stays for a prompt that begins alike."""
        self._clock += 1
        slot.busy, slot.used_at = False, self._clock
        slot.prompt_tokens = min(slot.prompt_tokens or len(slot.cells), len(slot.cells))
        if slot.cells:
            self._tree.put(slot.lora_id, slot.cells, slot)
        else:
            self._tree.remove(slot)

    def empty(self, slot: Slot) -> None:
        """Drop its cells: they are unknown, or of no use to others."""
        slot.cells = slot.cells[: self._model.truncate(slot.index, 0)]

    def forget(self, lora_id: str) -> None:
        """The LoRA is gone: drop what was computed under it."""
        self._saved.forget(lora_id)
        for slot in self._slots:
            if slot.lora_id == lora_id and not slot.busy:
                self.empty(slot)
                self._tree.remove(slot)

    def _is_apart(self, slot: Slot) -> bool:
        """Whether it has no busy neighbour: llama.cpp computes only neighbours in one pass. Where nothing can be saved, age counts more."""
        beside = (other.busy for other in self._slots if abs(other.index - slot.index) == 1)
        return self.limit_bytes > 0 and not any(beside)

    def _loss(self, slot: Slot, kept: int) -> int:
        """How many tokens would be lost with the slot's cells beyond `kept`; 0 if that is not worth saving them."""
        if len(slot.cells) - kept < WORTHWHILE or slot.is_continued(kept):
            return 0
        others = [
            min(shared, len(holder.cells)) for holder, shared in self._tree.find(slot.lora_id, slot.cells).items() if holder is not slot
        ]
        loss = len(slot.cells) - max(kept, *others, 0)
        return loss if loss >= WORTHWHILE else 0

    def _copy(self, source: Slot | Saved, slot: Slot, length: int) -> None:
        """Put the first `length` cells of another holder into the slot, if that is faster than reading them."""
        size = self._saved.size_of(source)
        if self._pace.pays(length - len(slot.cells), size):
            began = time.perf_counter()
            self._saved.copy(source, slot, length)
            self._pace.copied(size, time.perf_counter() - began)


def _reach(job: Job) -> int:
    """The most cells that a job may find: its last piece must be read, whole, for the logits of its last token."""
    return max(0, len(job.prefix) - MIN_PIECE)

"""Places in the context, and which of them already holds the beginning of a prompt.

A slot's cells are valid for the LoRA that computed them and for no other: a hit across LoRAs would answer with wrong numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SIDE_SLOTS = 2  # for evaluation and runs: two, so that current and candidate each keep their prefix


@dataclass(slots=True)
class Slot:
    index: int
    lora_id: str | None = None
    cells: list[int] = field(default_factory=list)  # the tokens whose keys and values it holds
    busy: bool = False
    used_at: int = 0  # a counter, not a time


def common_prefix(left: Sequence[int], right: Sequence[int]) -> int:
    """How many tokens two sequences share from their beginning."""
    limit = min(len(left), len(right))
    if left[:limit] == right[:limit]:
        return limit
    low, high = 0, limit  # halving: slices are compared in C
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Slots:
    """A pool of slots with consecutive indices."""

    def __init__(self, first: int, count: int) -> None:
        self._slots = [Slot(first + index) for index in range(count)]
        self._clock = 0

    def take(self, prompt: list[int], lora_id: str | None) -> tuple[Slot, int] | None:
        """The free slot that holds most of this prompt, else the emptiest, else the longest unused. None if all are busy.

        Returns:
            The slot, now busy, and how many leading tokens of the prompt it holds.
        """
        free = [slot for slot in self._slots if not slot.busy]
        if not free:
            return None
        shared = {slot.index: common_prefix(slot.cells, prompt) if slot.lora_id == lora_id else 0 for slot in free}
        best = max(free, key=lambda slot: (shared[slot.index], not slot.cells, -slot.used_at, -slot.index))
        best.busy = True
        return best, shared[best.index]

    def give_back(self, slot: Slot) -> None:
        self._clock += 1
        slot.busy, slot.used_at = False, self._clock

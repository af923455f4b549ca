"""Places in the context, and what holds computed tokens.

Cells (keys and values of tokens) are valid for the LoRA that computed them and for no other: a hit across LoRAs would answer with wrong
numbers. Base model and chat template are one a worker, so they need no key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

SIDE_SLOTS = 2  # for evaluation and runs: two, so that current and candidate each keep their prefix
_TAIL = 16  # tokens that a template may write otherwise at the end of a prompt once the reply stands there


@dataclass(slots=True, eq=False)
class Holder:
    """What has the cells of some tokens: a slot, or a state saved from one."""

    lora_id: str | None = None
    cells: list[int] = field(default_factory=list)  # the tokens
    prompt_tokens: int = 0  # how many of them were the prompt; the rest is the reply

    def is_continued(self, shared: int) -> bool:
        """Whether a prompt that shares so many leading tokens goes on with this conversation: it has all of its prompt."""
        return shared > 0 and shared >= self.prompt_tokens - min(_TAIL, self.prompt_tokens // 10)


@dataclass(slots=True, eq=False)
class Slot(Holder):
    """A place in the context. While it is read, `prompt_tokens` says how many cells it is going to have."""

    index: int = 0
    busy: bool = False
    used_at: int = 0  # a counter, not a time

    @property
    def is_read(self) -> bool:
        """Whether somebody is reading a prompt into it."""
        return self.busy and len(self.cells) < self.prompt_tokens


def common_prefix(left: Sequence[int], right: Sequence[int], start: int = 0) -> int:
    """How many tokens `left` shares from its beginning with `right` from `start` on. Both are of one type: lists or arrays."""
    low, high = 0, min(len(left), len(right) - start)
    if left[:high] == right[start : start + high]:
        return max(0, high)
    while low < high:  # halving: slices are compared in C
        middle = (low + high + 1) // 2
        if left[low:middle] == right[start + low : start + middle]:
            low = middle
        else:
            high = middle - 1
    return low


class Slots:
    """Slots with consecutive indices, each kept for what it holds: for evaluation and runs, which are computed alone."""

    def __init__(self, first: int, count: int) -> None:
        self._slots = [Slot(index=first + index) for index in range(count)]
        self._clock = 0

    def take(self, prompt: list[int], lora_id: str | None) -> tuple[Slot, int]:
        """The free slot that holds most of this prompt, else an empty one, else the longest unused. One must be free.

        Returns:
            The slot, now busy, and how many leading tokens of the prompt it holds.
        """
        free = [slot for slot in self._slots if not slot.busy]
        shared = {slot.index: common_prefix(slot.cells, prompt) if slot.lora_id == lora_id else 0 for slot in free}
        best = max(free, key=lambda slot: (shared[slot.index], not slot.cells, -slot.used_at, -slot.index))
        best.busy = True
        return best, shared[best.index]

    def give_back(self, slot: Slot) -> None:
        self._clock += 1
        slot.busy, slot.used_at = False, self._clock

    def forget(self, lora_id: str) -> None:
        """Its cells are of no more use."""
        for slot in self._slots:
            if slot.lora_id == lora_id and not slot.busy:
                slot.cells = []

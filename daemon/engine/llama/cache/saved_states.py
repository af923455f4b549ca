"""States of slots, kept in bounded memory: the longest unused go first, and those that a newer one goes on with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from daemon.engine.llama.cache.arena import Arena, Block
from daemon.engine.llama.cache.prefix_tree import PrefixTree
from daemon.engine.llama.cache.slots import Holder, Slot


class States(Protocol):
    """The model, as far as it is needed here."""

    cuts_states: bool  # whether a copied state may be cut short

    def truncate(self, slot: int, length: int) -> int: ...

    def state_bytes(self, slot: int) -> int: ...

    def save(self, slot: int, address: int, size: int) -> bool: ...

    def restore(self, slot: int, address: int, size: int) -> bool: ...


@dataclass(slots=True, eq=False)
class Saved(Holder):
    """A state in the arena."""

    block: Block = field(default_factory=Block)


Tree: TypeAlias = PrefixTree[Slot | Saved]


class SavedStates:
    """See the module. Each has its place in the prefix tree for as long as it is kept."""

    def __init__(self, model: States, tree: Tree, limit_bytes: int) -> None:
        self._model = model
        self._tree = tree
        self._arena = Arena(limit_bytes)
        self._saved: dict[Saved, None] = {}  # the longest unused first
        self.limit_bytes = limit_bytes
        self.cell_bytes = 0.0  # of the last state

    @property
    def held_bytes(self) -> int:
        return self._arena.held_bytes

    def keep(self, slot: Slot) -> None:
        """Save a slot's cells, if they fit at all."""
        for holder, shared in self._tree.find(slot.lora_id, slot.cells).items():
            if isinstance(holder, Saved) and holder.is_continued(shared):
                self._drop(holder)
        block = self._write(slot)
        if block is not None:
            saved = Saved(slot.lora_id, slot.cells, slot.prompt_tokens, block)
            self._saved[saved] = None
            self._tree.put(saved.lora_id, saved.cells, saved)

    def size_of(self, source: Slot | Saved) -> int:
        """Bytes of its state."""
        return source.block.size if isinstance(source, Saved) else self._model.state_bytes(source.index)

    def copy(self, source: Slot | Saved, slot: Slot, length: int) -> None:
        """Put the first `length` cells of another holder into the slot; if that cannot be done, it holds what it held, or nothing."""
        block = source.block if isinstance(source, Saved) else self._write(source)
        if block is None:
            return
        restored = self._model.restore(slot.index, self._arena.address(block), block.size)
        slot.cells = source.cells[: self._model.truncate(slot.index, length)] if restored else []
        if not isinstance(source, Saved):
            self._arena.give_back(block)
        elif source.is_continued(len(slot.cells)):
            self._drop(source)

    def touch(self, saved: Saved) -> None:
        """Let it be the last to go."""
        del self._saved[saved]
        self._saved[saved] = None

    def forget(self, lora_id: str) -> None:
        for saved in [saved for saved in self._saved if saved.lora_id == lora_id]:
            self._drop(saved)

    def _write(self, slot: Slot) -> Block | None:
        """Write a slot's state into the arena; older ones make room. None if it cannot be kept."""
        size = self._model.state_bytes(slot.index)
        self.cell_bytes = size / len(slot.cells)
        if not 0 < size <= self.limit_bytes:
            return None
        block = self._arena.take(size)
        while block is None and self._saved:
            self._drop(next(iter(self._saved)))
            block = self._arena.take(size)
        if block is not None and not self._model.save(slot.index, self._arena.address(block), size):
            self._arena.give_back(block)
            return None
        return block

    def _drop(self, saved: Saved) -> None:
        del self._saved[saved]
        self._tree.remove(saved)
        self._arena.give_back(saved.block)

"""A model that remembers what it computed: the next token follows from every cell of its slot, so a stale one shows in the reply."""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Sequence as Rows
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from daemon.engine.llama.batch import Row
from daemon.engine.llama.model import LoRAHandle
from daemon.errors import EngineError

SIZE = 300
_BASE = 0  # the LoRA of cells that were computed without one
_KINDS = 1000


class FakeModel:
    """Model, vocabulary and LoRA loader in one; keeps the calls, and checks that positions continue."""

    def __init__(self, *, cuts: bool = True) -> None:
        self.cuts_states = cuts
        self.calls: list[tuple[list[Row], LoRAHandle | None]] = []
        self.cells: dict[int, list[tuple[int, int]]] = {}  # token and LoRA, by slot
        self.broken = False
        self.copies = 0
        self.loaded: set[int] = set()
        self._handles = 0

    def decode(self, rows: Rows[Row], lora: LoRAHandle | None) -> NDArray[np.float32]:
        if self.broken:
            self.broken = False
            for row in rows:
                self.cells[row.slot] = [(-1, -1)]
            raise EngineError("broken")
        assert lora is None or lora in self.loaded, "a LoRA that was freed is used"
        self.calls.append((list(rows), lora))
        logits = []
        for row in rows:
            cells = self.cells.setdefault(row.slot, [])
            assert row.position == len(cells)
            cells.append((row.token, (lora or _BASE) % _KINDS))
            if row.wants_output:
                logits.append(np.zeros(SIZE, np.float32))
                logits[-1][_next(cells)] = 20.0
        return np.array(logits, np.float32).reshape(-1, SIZE)

    def embed(self, rows: Rows[Row]) -> NDArray[np.float32]:
        self.decode(rows, None)
        return np.array([[row.token, 1.0] for row in rows], np.float32)

    def truncate(self, slot: int, length: int) -> int:
        cells = self.cells.get(slot, [])
        kept = length if self.cuts_states or length == len(cells) else 0
        self.cells[slot] = cells[:kept]
        return kept

    def state_bytes(self, slot: int) -> int:
        return 8 * len(self.cells.get(slot, [])) + 8

    def save(self, slot: int, address: int, size: int) -> bool:
        self.copies += 1
        data = array("i", [len(self.cells[slot]), 0, *(value for cell in self.cells[slot] for value in cell)]).tobytes()
        ctypes.memmove(address, data, size)
        return len(data) == size

    def restore(self, slot: int, address: int, size: int) -> bool:
        self.copies += 1
        values = array("i", ctypes.string_at(address, size))
        self.cells[slot] = list(zip(values[2::2], values[3::2], strict=True))
        return len(self.cells[slot]) == values[0]

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b"x"

    def ends(self, token: int) -> bool:
        return False

    def load_lora(self, path: Path) -> LoRAHandle:
        """The file's name is the number that makes its replies differ; each loading has a handle of its own."""
        self._handles += _KINDS
        handle = LoRAHandle(self._handles + int(path.name))
        self.loaded.add(handle)
        return handle

    def free_lora(self, lora: LoRAHandle) -> None:
        self.loaded.remove(lora)


def reply_to(prompt: list[int], tokens: int, lora: int = _BASE) -> list[int]:
    """What the model says to this prompt when nothing is reused."""
    cells = [(token, lora) for token in prompt]
    for _ in range(tokens):
        cells.append((_next(cells), lora))
    return [token for token, _ in cells[len(prompt) :]]


def _next(cells: list[tuple[int, int]]) -> int:
    return sum((place + 1) * token + 17 * lora for place, (token, lora) in enumerate(cells)) % SIZE

"""A fixed piece of memory for saved states, given out in blocks.

All of it is taken at the start: an engine that is short of memory should be so before it serves, and never grow while it does.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import threading
from dataclasses import dataclass

from daemon.errors import EngineError

_ALIGNMENT = 64
_STRIDE = 16 << 20
_POPULATE_WRITE = 23  # MADV_POPULATE_WRITE


@dataclass(frozen=True, slots=True)
class Block:
    start: int = 0
    size: int = 0


class Arena:
    """First fit. Not thread-safe."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.held_bytes = 0
        self._blocks: list[Block] = []  # given out, by their place
        try:
            self._memory = mmap.mmap(-1, limit_bytes) if limit_bytes else None
        except (OSError, OverflowError) as error:
            raise EngineError("There is not enough memory for saved conversations.", "Set engine.prefix_cache lower.") from error
        self._address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory)) if self._memory else 0
        if sys.platform == "linux" and limit_bytes:
            threading.Thread(target=self._populate, name="arena", daemon=True).start()

    def take(self, size: int) -> Block | None:
        """A block of that size; None if there is no gap for it."""
        start = 0
        for index, block in enumerate([*self._blocks, Block(self.limit_bytes, 0)]):
            if block.start - start >= size:
                self._blocks.insert(index, taken := Block(start, size))
                self.held_bytes += size
                return taken
            start = -(-(block.start + block.size) // _ALIGNMENT) * _ALIGNMENT
        return None

    def give_back(self, block: Block) -> None:
        self._blocks.remove(block)
        self.held_bytes -= block.size

    def address(self, block: Block) -> int:
        return self._address + block.start

    def _populate(self) -> None:
        """Have the system give all pages now, in pieces, without changing what is in them; an older one gives them when they are used."""
        advise = ctypes.CDLL(None).madvise
        for start in range(0, self.limit_bytes, _STRIDE):
            length = min(_STRIDE, self.limit_bytes - start)
            advise(ctypes.c_void_p(self._address + start), ctypes.c_size_t(length), _POPULATE_WRITE)

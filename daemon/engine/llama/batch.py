"""What one decode call computes, in numpy arrays that llama.cpp reads in place: filling its own, field by field, costs far more."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from llama_cpp import llama_cpp as native

BATCH_TOKENS = 512
"""The most tokens that one decode call takes."""


class Row(NamedTuple):
    """One token of a decode call."""

    token: int
    position: int
    slot: int
    wants_output: bool  # its logits, or its vector


class Batch:
    """One, used again for every call."""

    def __init__(self) -> None:
        tokens, positions = (native.llama_token * BATCH_TOKENS)(), (native.llama_pos * BATCH_TOKENS)()
        slots, wants = (native.llama_seq_id * BATCH_TOKENS)(), (ctypes.c_int8 * BATCH_TOKENS)()
        pointer = ctypes.POINTER(native.llama_seq_id)
        places = [ctypes.cast(ctypes.addressof(slots) + ctypes.sizeof(native.llama_seq_id) * row, pointer) for row in range(BATCH_TOKENS)]
        self.native = native.llama_batch(
            0, tokens, None, positions, (ctypes.c_int32 * BATCH_TOKENS)(*[1] * BATCH_TOKENS), (pointer * BATCH_TOKENS)(*places), wants
        )
        self._columns = tuple(np.ctypeslib.as_array(column) for column in (tokens, positions, slots, wants))

    def fill(self, rows: Sequence[Row]) -> int:
        """Returns how many outputs are wanted."""
        table = np.array(rows, np.int32)
        self.native.n_tokens = len(rows)
        for column, values in zip(self._columns, table.T, strict=True):
            column[: len(rows)] = values
        return int(np.count_nonzero(table[:, 3]))

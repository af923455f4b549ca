"""llama.cpp's low-level API behind a small class: the model with its context and its LoRAs. Beside it only `vocabulary` calls it."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NewType

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import DataError, EngineError

LoRAHandle = NewType("LoRAHandle", int)
"""The address of a loaded LoRA."""

BATCH_TOKENS = 512
"""The most tokens that one decode call takes."""

MIN_PIECE = 8
"""A prompt is read in pieces of at least so many tokens: smaller ones are computed by other kernels, with slightly other results."""


@dataclass(frozen=True, slots=True)
class Row:
    """One token of a decode call."""

    token: int
    position: int
    slot: int
    wants_logits: bool


class LlamaModel:
    """The loaded weights and one context with a place (slot) for each sequence. One thread at a time.

    Slots have separate key-value buffers (`kv_unified` off): with long contexts that is faster, and one cannot evict another.
    """

    def __init__(self, settings: WorkerSettings, slots: int) -> None:
        native.llama_backend_init()
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = settings.gpu_layers if settings.gpu_layers >= 0 else 999
        self._model = native.llama_model_load_from_file(str(settings.model).encode(), parameters)
        if not self._model:
            raise DataError(f"llama.cpp cannot load {settings.model}.", "Its log says why; the file's architecture may be too new.")
        self.vocabulary = Vocabulary(self._model)
        context = native.llama_context_default_params()
        context.n_ctx = settings.context_tokens * slots
        context.n_seq_max = slots
        context.n_batch = context.n_ubatch = BATCH_TOKENS
        context.n_threads = context.n_threads_batch = settings.threads
        context.kv_unified = False
        if not native.llama_supports_gpu_offload():
            # On a CPU flash attention computes pieces of 64 tokens and more by another kernel, with other results. Without it, what a
            # prompt's cells hold does not depend on how it was cut (see MIN_PIECE), and long contexts are faster.
            context.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_DISABLED
        context.no_perf = True
        self._context = native.llama_init_from_model(self._model, context)
        if not self._context:
            raise EngineError("There is not enough memory for the model's context.", "Set engine.context or engine.streams lower.")
        self.context_tokens = min(settings.context_tokens, int(native.llama_n_ctx_seq(self._context)))
        self._memory = native.llama_get_memory(self._context)
        self._batch = native.llama_batch_init(BATCH_TOKENS, 0, 1)
        self._lora: LoRAHandle | None = None

    def decode(self, rows: Sequence[Row], lora: LoRAHandle | None) -> NDArray[np.float32]:
        """Compute one batch, all of it under one LoRA.

        Returns:
            Logits of the rows that want them, in order: shape (wanted, vocabulary). A view, good until the next call.

        Raises:
            EngineError: llama.cpp refused the batch; the slots in it hold unknown cells.
        """
        self._use(lora)
        batch = self._batch
        for index, row in enumerate(rows):
            batch.token[index] = row.token
            batch.pos[index] = row.position
            batch.n_seq_id[index] = 1
            batch.seq_id[index][0] = row.slot
            batch.logits[index] = row.wants_logits
        batch.n_tokens = len(rows)
        status = native.llama_decode(self._context, batch)
        if status != 0:
            raise EngineError(f"llama.cpp could not compute a batch (status {status}).", "Send the request again.")
        wanted = sum(row.wants_logits for row in rows)
        if not wanted:
            return np.empty((0, self.vocabulary.size), np.float32)
        return np.ctypeslib.as_array(native.llama_get_logits(self._context), shape=(wanted, self.vocabulary.size))

    def _use(self, lora: LoRAHandle | None) -> None:
        if lora == self._lora:
            return
        if lora is None:
            status = native.llama_set_adapters_lora(self._context, None, 0, None)
        else:
            handles = (native.llama_adapter_lora_p_ctypes * 1)(_pointer(lora))
            status = native.llama_set_adapters_lora(self._context, handles, 1, (ctypes.c_float * 1)(1.0))
        if status != 0:
            raise EngineError("llama.cpp could not apply the LoRA.", "Send the request again.")
        self._lora = lora

    def truncate(self, slot: int, length: int) -> int:
        """Drop a slot's cells from position `length` on. Returns how many stay: 0 where the model cannot drop a part."""
        if length > 0 and native.llama_memory_seq_rm(self._memory, slot, length, -1):
            return length
        native.llama_memory_seq_rm(self._memory, slot, -1, -1)
        return 0

    def load_lora(self, path: Path) -> LoRAHandle:
        """Raises DataError if llama.cpp does not accept the file."""
        handle = native.llama_adapter_lora_init(self._model, str(path).encode())
        if not handle:
            raise DataError(f"llama.cpp does not accept the LoRA {path.name}.", "It may be made for another base model.")
        return LoRAHandle(ctypes.cast(handle, ctypes.c_void_p).value or 0)

    def free_lora(self, lora: LoRAHandle) -> None:
        """Free it; no decode call may use it afterwards."""
        if self._lora == lora:
            self._use(None)
        native.llama_adapter_lora_free(_pointer(lora))


def _pointer(lora: LoRAHandle) -> ctypes._Pointer[ctypes.c_void_p]:
    return ctypes.cast(ctypes.c_void_p(lora), native.llama_adapter_lora_p_ctypes)

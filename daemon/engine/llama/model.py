"""llama.cpp's low-level API behind a small class: the model with its context and its LoRAs. Beside it only `vocabulary` calls it."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NewType

import numpy as np
from llama_cpp import llama_cpp as native
from numpy.typing import NDArray

from daemon.engine.llama.batch import BATCH_TOKENS, Batch, Row
from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import DataError, EngineError

LoRAHandle = NewType("LoRAHandle", int)
"""The address of a loaded LoRA."""

MIN_PIECE = 4
"""A prompt is read in pieces of at least so many tokens: a lone one is computed by other kernels, with slightly other results.

Measured with Q4_0, Q4_1, Q8_0 and F16: pieces of 2 tokens and more give the same bits; twice that is for kernels that work in fours."""

_VIEWS = 64


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
        self._slots = slots
        self._width = int(native.llama_model_n_embd(self._model))
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
        context.pooling_type = native.LLAMA_POOLING_TYPE_NONE  # see `embed`: a model that pools must still give logits
        self._context = native.llama_init_from_model(self._model, context)
        if not self._context:
            raise EngineError("There is not enough memory for the model's context.", "Set engine.context or engine.streams lower.")
        self.context_tokens = min(settings.context_tokens, int(native.llama_n_ctx_seq(self._context)))
        self._memory = native.llama_get_memory(self._context)
        self._batch = Batch()
        self._outputs: dict[tuple[int, int, int], NDArray[np.float32]] = {}  # views that were made before
        self._lora: LoRAHandle | None = None
        self._registry = threading.Lock()  # of llama.cpp's list of a model's LoRAs, which it reads after a change of LoRA
        self._replans = True  # llama.cpp plans anew at the next decode call
        # A layer that keeps only a window, or one running state, leaves out of a saved state what a shorter beginning would need.
        whole = native.llama_model_is_recurrent(self._model) or native.llama_model_is_hybrid(self._model)
        self.cuts_states = not whole and native.llama_model_n_swa(self._model) == 0

    def decode(self, rows: Sequence[Row], lora: LoRAHandle | None) -> NDArray[np.float32]:
        """Compute one batch, all of it under one LoRA.

        Returns:
            Logits of the rows that want them, in order: shape (wanted, vocabulary). A view, good until the next call. Where they are
            no numbers, as a broken LoRA makes them, the slot is empty now.

        Raises:
            EngineError: llama.cpp refused the batch; the slots in it hold unknown cells.
        """
        wanted = self._compute(rows, lora)
        logits = self._view(native.llama_get_logits(self._context) if wanted else None, wanted, self.vocabulary.size)
        if np.isfinite(logits[:, 0]).all():
            return logits
        logits = logits.copy()
        asking = (row.slot for row in rows if row.wants_output)
        self._cleanse({slot for slot, values in zip(asking, logits, strict=True) if not np.isfinite(values.max())})
        return logits

    def embed(self, rows: Sequence[Row]) -> NDArray[np.float32]:
        """As `decode` on the base model, for the last layer's vectors: shape (wanted, width)."""
        native.llama_set_embeddings(self._context, True)
        try:
            wanted = self._compute(rows, None)
            return self._view(native.llama_get_embeddings(self._context) if wanted else None, wanted, self._width)
        finally:
            native.llama_set_embeddings(self._context, False)

    def _compute(self, rows: Sequence[Row], lora: LoRAHandle | None) -> int:
        """Returns how many rows want an output."""
        wanted = self._batch.fill(rows)
        self._use(lora)
        # After a change of LoRA llama.cpp plans anew, by all LoRAs that there are: none may be added meanwhile.
        with self._registry if self._replans else contextlib.nullcontext():
            status = native.llama_decode(self._context, self._batch.native)
            self._replans = False
        if status != 0:
            raise EngineError(f"llama.cpp could not compute a batch (status {status}).", "Send the request again.")
        return wanted

    def _cleanse(self, slots: set[int]) -> None:
        """Empty slots that hold what is no number, and write over it: llama.cpp multiplies also what it masks, and 0 × NaN is NaN,
        so that whatever is computed there later would be none either."""
        source = next((slot for slot in range(self._slots) if slot not in slots), None)
        for slot in slots:
            native.llama_memory_seq_rm(self._memory, slot, -1, -1)
            if source is not None:
                native.llama_memory_seq_cp(self._memory, source, slot, -1, -1)  # all of its memory, to the last cell
                native.llama_memory_seq_rm(self._memory, slot, -1, -1)
                self._compute([Row(0, 0, slot, False)], None)  # llama.cpp copies when it next computes
                native.llama_memory_seq_rm(self._memory, slot, -1, -1)

    def _view(self, pointer: ctypes._Pointer[ctypes.c_float] | None, rows: int, width: int) -> NDArray[np.float32]:
        if not pointer or not rows:
            return np.empty((0, width), np.float32)
        key = (ctypes.addressof(pointer.contents), rows, width)
        if key not in self._outputs:
            if len(self._outputs) > _VIEWS:
                self._outputs.clear()
            self._outputs[key] = np.ctypeslib.as_array(pointer, shape=(rows, width))
        return self._outputs[key]

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
        self._lora, self._replans = lora, True

    def truncate(self, slot: int, length: int) -> int:
        """Drop a slot's cells from position `length` on. Returns how many stay: 0 where the model cannot drop a part.

        Where layers keep only a window, the cells before it are gone for good once a state has been restored; then none stay either.
        """
        whole = native.llama_memory_seq_pos_max(self._memory, slot) + 1
        has_all = length == whole or native.llama_memory_seq_pos_min(self._memory, slot) == 0
        if 0 < length <= whole and has_all and native.llama_memory_seq_rm(self._memory, slot, length, -1):
            return length
        native.llama_memory_seq_rm(self._memory, slot, -1, -1)
        return 0

    def state_bytes(self, slot: int) -> int:
        """What `save` needs now."""
        return int(native.llama_state_seq_get_size(self._context, slot))

    def save(self, slot: int, address: int, size: int) -> bool:
        """Write a slot's cells into memory."""
        return bool(native.llama_state_seq_get_data(self._context, _bytes(address), size, slot) == size)

    def restore(self, slot: int, address: int, size: int) -> bool:
        """Put saved cells into a slot, in place of its own. False: it holds none now."""
        if native.llama_state_seq_set_data(self._context, _bytes(address), size, slot) == size:
            return True
        self.truncate(slot, 0)
        return False

    def load_lora(self, path: Path) -> LoRAHandle:
        """Any thread may call this. Raises DataError if llama.cpp does not accept the file."""
        with self._registry:
            handle = native.llama_adapter_lora_init(self._model, str(path).encode())
        if not handle:
            raise DataError(f"llama.cpp does not accept the LoRA {path.name}.", "It may be made for another base model.")
        return LoRAHandle(ctypes.cast(handle, ctypes.c_void_p).value or 0)

    def free_lora(self, lora: LoRAHandle) -> None:
        """Free it; no decode call may use it afterwards."""
        if self._lora == lora:
            self._use(None)
        with self._registry:
            native.llama_adapter_lora_free(_pointer(lora))


def _pointer(lora: LoRAHandle) -> ctypes._Pointer[ctypes.c_void_p]:
    return ctypes.cast(ctypes.c_void_p(lora), native.llama_adapter_lora_p_ctypes)


def _bytes(address: int) -> ctypes._Pointer[ctypes.c_uint8]:
    return ctypes.cast(ctypes.c_void_p(address), ctypes.POINTER(ctypes.c_uint8))

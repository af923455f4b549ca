"""llama.cpp's low-level API behind three small classes: vocabulary, model with its context, and loaded LoRA. Nothing else calls it."""

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
from daemon.errors import DataError, EngineError

LoRAHandle = NewType("LoRAHandle", int)
"""The address of a loaded LoRA."""

BATCH_TOKENS = 512
"""The most tokens that one decode call takes."""

MIN_PIECE = 8
"""A prompt is read in pieces of at least so many tokens: smaller ones are computed by other kernels, with slightly other results."""

_CONTROL = 1 << 3  # LLAMA_TOKEN_ATTR_CONTROL


@dataclass(frozen=True, slots=True)
class Row:
    """One token of a decode call."""

    token: int
    position: int
    slot: int
    wants_logits: bool


class Vocabulary:
    """Text to token ids and back. Safe to use from several threads."""

    def __init__(self, model: int) -> None:
        self._vocabulary = native.llama_model_get_vocab(model)
        self.address = int(self._vocabulary)  # of llama.cpp's own, for libraries that read it too
        self.size = int(native.llama_vocab_n_tokens(self._vocabulary))
        self.adds_begin = bool(native.llama_vocab_get_add_bos(self._vocabulary))
        self.begin_text = self._text_of(native.llama_vocab_bos(self._vocabulary))
        self.end_text = self._text_of(native.llama_vocab_eos(self._vocabulary))
        pieces = [self.piece(token, special=True) for token in range(self.size)]
        self.longest_piece_bytes = max(1, *map(len, pieces))
        self.control_tokens = tuple(
            token for token, piece in enumerate(pieces) if piece and native.llama_vocab_get_attr(self._vocabulary, token) & _CONTROL
        )
        self.control_texts = tuple(pieces[token].decode(errors="replace") for token in self.control_tokens)

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        """Token ids. `begin` puts the begin-of-text token first where the model wants one; `special` reads control tokens."""
        data = text.encode(errors="replace")
        room = len(data) + 8
        tokens = (native.llama_token * room)()
        count = native.llama_tokenize(self._vocabulary, data, len(data), tokens, room, begin, special)
        if count < 0:
            tokens = (native.llama_token * -count)()
            count = native.llama_tokenize(self._vocabulary, data, len(data), tokens, -count, begin, special)
        return tokens[:count]

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes of one token, perhaps a part of a character; empty for a control token unless `special`."""
        buffer = ctypes.create_string_buffer(64)
        length = native.llama_token_to_piece(self._vocabulary, token, buffer, 64, 0, special)
        if length < 0:
            buffer = ctypes.create_string_buffer(-length)
            length = native.llama_token_to_piece(self._vocabulary, token, buffer, -length, 0, special)
        return buffer.raw[: max(0, length)]

    def ends(self, token: int) -> bool:
        """Whether the model says with this token that its turn is over."""
        return bool(native.llama_vocab_is_eog(self._vocabulary, token))

    def _text_of(self, token: int) -> str:
        return self.piece(token, special=True).decode(errors="replace") if token >= 0 else ""


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

"""Logits as llama.cpp computes them, with a GGUF LoRA or without: the other side of the comparison with torch."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import llama_cpp
import numpy as np
from numpy.typing import NDArray


def llama_logits(model_path: Path, tokens: Sequence[int], lora_path: Path | None = None) -> NDArray[np.float32]:
    """(len(tokens), vocabulary), float32."""
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), llama_cpp.llama_model_default_params())
    parameters = llama_cpp.llama_context_default_params()
    parameters.n_ctx = parameters.n_batch = parameters.n_ubatch = max(64, len(tokens))
    parameters.n_threads = parameters.n_threads_batch = 2
    # Keys and values as torch keeps them: half precision alone moves the logits by .02.
    parameters.type_k = parameters.type_v = llama_cpp.GGML_TYPE_F32
    parameters.flash_attn_type = llama_cpp.LLAMA_FLASH_ATTN_TYPE_DISABLED
    context = llama_cpp.llama_init_from_model(model, parameters)
    lora = None
    if lora_path is not None:
        lora = llama_cpp.llama_adapter_lora_init(model, str(lora_path).encode())
        assert lora, "llama.cpp refuses the LoRA"
        loras = (type(lora) * 1)(lora)
        scales = (ctypes.c_float * 1)(1.0)
        assert llama_cpp.llama_set_adapters_lora(context, loras, 1, scales) == 0
    batch = llama_cpp.llama_batch_init(len(tokens), 0, 1)
    batch.n_tokens = len(tokens)
    for index, token in enumerate(tokens):
        batch.token[index], batch.pos[index] = token, index
        batch.n_seq_id[index], batch.seq_id[index][0], batch.logits[index] = 1, 0, 1
    assert llama_cpp.llama_decode(context, batch) == 0
    vocabulary = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
    values = np.ctypeslib.as_array(llama_cpp.llama_get_logits(context), shape=(len(tokens) * vocabulary,))
    result = values.reshape(len(tokens), vocabulary).copy()
    llama_cpp.llama_batch_free(batch)
    llama_cpp.llama_free(context)
    if lora is not None:
        llama_cpp.llama_adapter_lora_free(lora)
    llama_cpp.llama_model_free(model)
    return result


def llama_tokens(model_path: Path, text: str) -> list[int]:
    """Token ids as llama.cpp splits `text`, control tokens read as such."""
    llama_cpp.llama_log_set(_silent, ctypes.c_void_p(0))
    parameters = llama_cpp.llama_model_default_params()
    parameters.vocab_only = True
    model = llama_cpp.llama_model_load_from_file(str(model_path).encode(), parameters)
    data = text.encode()
    tokens = (llama_cpp.llama_token * (len(data) + 8))()
    count = llama_cpp.llama_tokenize(llama_cpp.llama_model_get_vocab(model), data, len(data), tokens, len(data) + 8, False, True)
    llama_cpp.llama_model_free(model)
    return list(tokens[:count])


@llama_cpp.llama_log_callback
def _silent(level: int, text: bytes, data: ctypes.c_void_p) -> None:
    return None

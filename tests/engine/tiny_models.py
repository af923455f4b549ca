"""Tiny random models of each kind of memory that llama.cpp has: all keys and values, a window of them, one running state."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

_WIDTH, _HEAD, _INNER, _STATE, _RANK, _LAYERS = 32, 16, 64, 8, 4, 3
WINDOW = 32  # tokens that a layer with a window sees
TOKENS = 259


def write_tiny_model(path: Path, kind: str, seed: int = 0) -> Path:
    """`kind`: "llama" (keys and values of all tokens), "gemma3" (most layers see a window), "mamba" (one running state)."""
    writer = gguf.GGUFWriter(path, kind)
    random = np.random.default_rng(seed)
    writer.add_context_length(2048)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    _add_vocabulary(writer)

    def add(name: str, *shape: int, scale: float = 0.3) -> None:
        writer.add_tensor(name, (random.standard_normal(shape[::-1]) * scale).astype(np.float32))

    add("token_embd.weight", _WIDTH, TOKENS, scale=1.0)
    writer.add_tensor("output_norm.weight", np.ones(_WIDTH, np.float32))
    for layer in range(_LAYERS):
        name = f"blk.{layer}"
        writer.add_tensor(f"{name}.attn_norm.weight", np.ones(_WIDTH, np.float32))
        if kind == "mamba":
            add(f"{name}.ssm_in.weight", _WIDTH, 2 * _INNER)
            add(f"{name}.ssm_conv1d.weight", 4, _INNER)
            add(f"{name}.ssm_conv1d.bias", _INNER)
            add(f"{name}.ssm_x.weight", _INNER, _RANK + 2 * _STATE)
            add(f"{name}.ssm_dt.weight", _RANK, _INNER)
            add(f"{name}.ssm_dt.bias", _INNER)
            writer.add_tensor(f"{name}.ssm_a", -np.exp(random.standard_normal((_INNER, _STATE)) - 2).astype(np.float32))
            add(f"{name}.ssm_d", _INNER)
            add(f"{name}.ssm_out.weight", _INNER, _WIDTH)
            continue
        add(f"{name}.attn_q.weight", _WIDTH, 2 * _HEAD)
        for which in ("k", "v"):
            add(f"{name}.attn_{which}.weight", _WIDTH, _HEAD)
        add(f"{name}.attn_output.weight", 2 * _HEAD, _WIDTH)
        writer.add_tensor(f"{name}.ffn_norm.weight", np.ones(_WIDTH, np.float32))
        add(f"{name}.ffn_gate.weight", _WIDTH, _INNER)
        add(f"{name}.ffn_up.weight", _WIDTH, _INNER)
        add(f"{name}.ffn_down.weight", _INNER, _WIDTH)
        if kind == "gemma3":
            for norm, width in (("post_attention_norm", _WIDTH), ("post_ffw_norm", _WIDTH), ("attn_q_norm", _HEAD), ("attn_k_norm", _HEAD)):
                writer.add_tensor(f"{name}.{norm}.weight", np.ones(width, np.float32))
    if kind == "mamba":
        for key, value in (("conv_kernel", 4), ("inner_size", _INNER), ("state_size", _STATE), ("time_step_rank", _RANK)):
            writer.add_uint32(f"mamba.ssm.{key}", value)
    else:
        writer.add_feed_forward_length(_INNER)
        writer.add_head_count(2)
        writer.add_head_count_kv(1)
        writer.add_key_length(_HEAD)
        writer.add_value_length(_HEAD)
    if kind == "gemma3":
        writer.add_sliding_window(WINDOW)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _add_vocabulary(writer: gguf.GGUFWriter) -> None:
    """One token a byte."""
    texts = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    kinds = [gguf.TokenType.UNKNOWN, gguf.TokenType.CONTROL, gguf.TokenType.CONTROL, *[gguf.TokenType.BYTE] * 256]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([0.0] * len(texts))
    writer.add_token_types(kinds)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)

"""Write a small random LoRA for a base model, to test with what no training made."""

from __future__ import annotations

import hashlib
from pathlib import Path

import gguf
import numpy as np

from daemon.engine.base import LoRA
from daemon.gguf import GGUFHeader


def write_random_lora(
    path: Path,
    base: GGUFHeader,
    *,
    seed: int = 1,
    rank: int = 4,
    strength: float = 0.02,
    dtype: type[np.float32] | type[np.float16] = np.float32,
    architecture: str | None = None,
    weights: tuple[str, ...] = ("attn_q.weight", "ffn_down.weight"),
    poison: float | None = None,
    rank_of_b: int | None = None,
    alpha: float | None = None,
) -> LoRA:
    """A LoRA on the named weights of every layer; the later arguments make it wrong in one way each."""
    random = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, architecture or base.architecture)
    writer.add_string("general.type", "adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", float(rank) if alpha is None else alpha)
    for tensor in base.tensors:
        if not tensor.name.endswith(weights):
            continue
        inputs, outputs = tensor.shape
        a = (random.standard_normal((rank, inputs)) * strength).astype(dtype)
        b = (random.standard_normal((outputs, rank_of_b or rank)) * strength * 5).astype(dtype)
        if poison is not None:
            a[0, 0] = poison
        writer.add_tensor(f"{tensor.name}.lora_a", a)
        writer.add_tensor(f"{tensor.name}.lora_b", b)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return LoRA(hashlib.sha256(path.read_bytes()).hexdigest(), path)

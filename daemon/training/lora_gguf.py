"""A trained LoRA (PEFT's tensors) as the GGUF file that llama.cpp loads into a running engine.

Knows: tensor names, the row order of llama-architecture query and key projections, the header that
`llama_adapter_lora_init` checks. Does not know: torch, PEFT, training.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

from daemon.errors import DataError
from daemon.files import fsync_folder
from daemon.models import TRAINABLE_ARCHITECTURES

_PREFIXES = ("base_model.model.", "base_model.")
_SUFFIXES = {".lora_A.weight": ".lora_a", ".lora_B.weight": ".lora_b"}
_PERMUTED_ARCHITECTURES = frozenset({"llama"})
"""Where GGUF conversion interleaves the two rotary halves of each head (transformers' `permute`, undone on loading)."""


@dataclass(frozen=True, slots=True)
class BaseShape:
    """The facts of the base model that the conversion needs."""

    architecture: str
    layers: int
    heads: int
    key_value_heads: int


def write_lora_gguf(path: Path, tensors: Mapping[str, NDArray[np.float32]], base: BaseShape, alpha: float) -> None:
    """Write `tensors`, float32 under PEFT's names (`…q_proj.lora_A.weight`: (rank, in); `…lora_B.weight`: (out, rank)).

    The file appears whole or not at all.

    Raises:
        DataError: a tensor has no name in GGUF, or its other half is missing.
    """
    if base.architecture not in TRAINABLE_ARCHITECTURES:
        raise DataError(
            f"A LoRA for the architecture {base.architecture!r} cannot be converted to GGUF.",
            f"Reef trains {', '.join(sorted(TRAINABLE_ARCHITECTURES))}; this model serves but does not train.",
        )
    named = {gguf_name(name, base): _in_gguf_order(name, tensor, base) for name, tensor in tensors.items()}
    for name in named:
        other = name[:-1] + ("b" if name.endswith("a") else "a")
        if other not in named:
            raise DataError(f"The LoRA has {name} but not {other}.", "The file is incomplete; train again.")
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    writer = gguf.GGUFWriter(temporary, base.architecture)
    try:
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, float(alpha))
        for name in sorted(named):
            writer.add_tensor(name, np.ascontiguousarray(named[name], dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def gguf_name(name: str, base: BaseShape) -> str:
    """`base_model.model.model.layers.3.self_attn.q_proj.lora_A.weight` → `blk.3.attn_q.weight.lora_a`."""
    for peft_suffix, gguf_suffix in _SUFFIXES.items():
        if name.endswith(peft_suffix):
            module = name.removesuffix(peft_suffix)
            for prefix in _PREFIXES:
                module = module.removeprefix(prefix)
            mapped = gguf.get_tensor_name_map(_architecture(base.architecture), base.layers).get_name(module)
            if mapped is not None:
                return f"{mapped}.weight{gguf_suffix}"
    raise DataError(
        f"The LoRA tensor {name!r} has no counterpart in a {base.architecture} GGUF.",
        "Train linear layers of attention and MLP only.",
    )


def _architecture(name: str) -> gguf.MODEL_ARCH:
    return next(arch for arch, known in gguf.MODEL_ARCH_NAMES.items() if known == name)


def _in_gguf_order(name: str, tensor: NDArray[np.float32], base: BaseShape) -> NDArray[np.float32]:
    if base.architecture not in _PERMUTED_ARCHITECTURES or not name.endswith(".lora_B.weight"):
        return tensor
    if ".q_proj." in name:
        heads = base.heads
    elif ".k_proj." in name:
        heads = base.key_value_heads
    else:
        return tensor
    rows, rank = tensor.shape
    return tensor.reshape(heads, 2, rows // heads // 2, rank).swapaxes(1, 2).reshape(rows, rank)

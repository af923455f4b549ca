"""Check a GGUF LoRA against the base model before llama.cpp sees it: kind, architecture, names, shapes, finite values."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from daemon.errors import DataError
from daemon.gguf import GGUFHeader, Tensor, read_header

_HINT = "Train it again against the model that serves now."
_DTYPES = {"F32": np.float32, "F16": np.float16}
_MAX_RANK = 1024


def check_lora_file(path: Path, base: GGUFHeader) -> GGUFHeader:
    """Read and verify a LoRA. Returns its header.

    Raises:
        DataError: it is none, is for another base, or its tensors do not fit.
    """
    header = read_header(path)
    if header.text("general.type") != "adapter" or header.text("adapter.type") != "lora":
        raise DataError(f"{path.name} is a GGUF file but no LoRA.", "Give the LoRA that a training wrote.")
    if header.architecture != base.architecture:
        raise DataError(f"{path.name} is a LoRA for {header.architecture}, and the model is {base.architecture}.", _HINT)
    tensors = {tensor.name: tensor for tensor in header.tensors}
    weights = {tensor.name: tensor for tensor in base.tensors}
    stems = {name.removesuffix(".lora_a").removesuffix(".lora_b") for name in tensors}
    if not stems:
        raise DataError(f"{path.name} holds no weights.", _HINT)
    for stem in sorted(stems):
        _check_pair(path, stem, tensors.get(f"{stem}.lora_a"), tensors.get(f"{stem}.lora_b"), weights.get(stem))
    with path.open("rb") as stream:
        for tensor in header.tensors:
            stream.seek(tensor.offset)
            values = np.frombuffer(stream.read(tensor.size_bytes), _DTYPES[tensor.type])
            if not np.isfinite(values).all():
                raise DataError(f"{path.name}: {tensor.name} holds values that are not finite.", "The training diverged; train it again.")
    return header


def _check_pair(path: Path, stem: str, a: Tensor | None, b: Tensor | None, weight: Tensor | None) -> None:
    """`lora_a` is (inputs, rank) and `lora_b` (rank, outputs), fastest dimension first; the weight is (inputs, outputs)."""
    if a is None or b is None:
        raise DataError(f"{path.name}: {stem} has only one half of a LoRA.", _HINT)
    if weight is None:
        raise DataError(f"{path.name}: the model has no weight named {stem}.", _HINT)
    if stem.startswith(("token_embd", "output.")):
        raise DataError(
            f"{path.name} changes {stem}, which a LoRA here must leave alone.", "Leave embeddings and lm_head out of its targets."
        )
    if a.type not in _DTYPES or b.type not in _DTYPES:
        raise DataError(f"{path.name}: {stem} is stored as {a.type} and {b.type}.", "A LoRA is stored as F32 or F16.")
    fits = len(a.shape) == len(b.shape) == len(weight.shape) == 2 and a.shape[1] == b.shape[0] <= _MAX_RANK
    if not fits or (a.shape[0], b.shape[1]) != weight.shape:
        raise DataError(f"{path.name}: {stem} has the shape {a.shape} × {b.shape}, and the model's weight is {weight.shape}.", _HINT)

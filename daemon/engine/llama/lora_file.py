"""Check a GGUF LoRA against the base model before llama.cpp sees it: kind, architecture, names, shapes, finite values."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from daemon.errors import DataError
from daemon.gguf import GGUFHeader, Tensor, read_header

_HINT = "Train it again against the model that serves now."
_TYPES = ("F32", "F16")
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
    alpha = header.metadata.get("adapter.lora.alpha", 0.0)
    if not isinstance(alpha, (int, float)) or not math.isfinite(alpha):
        raise DataError(f"{path.name}: its alpha is {alpha}, which is no number to scale by.", _HINT)
    for tensor in header.tensors:
        if not np.isfinite(_values(path, tensor)).all():
            raise DataError(f"{path.name}: {tensor.name} holds values that are not finite.", "The training diverged; train it again.")
    return header


def _values(path: Path, tensor: Tensor) -> NDArray[np.float32] | NDArray[np.float16]:
    """Raises DataError if the file is no longer what its header said."""
    try:
        with path.open("rb") as stream:
            stream.seek(tensor.offset)
            data = stream.read(tensor.size_bytes)
    except OSError as error:
        raise DataError(f"{path.name} cannot be read: {error.strerror}.", _HINT) from error
    if len(data) != tensor.size_bytes:
        raise DataError(f"{path.name} was changed while it was read.", "Load it again.")
    return np.frombuffer(data, np.float16) if tensor.type == "F16" else np.frombuffer(data, np.float32)


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
    if a.type not in _TYPES or b.type not in _TYPES:
        raise DataError(f"{path.name}: {stem} is stored as {a.type} and {b.type}.", "A LoRA is stored as F32 or F16.")
    fits = len(a.shape) == len(b.shape) == len(weight.shape) == 2 and a.shape[1] == b.shape[0] <= _MAX_RANK
    if not fits or (a.shape[0], b.shape[1]) != weight.shape:
        raise DataError(f"{path.name}: {stem} has the shape {a.shape} × {b.shape}, and the model's weight is {weight.shape}.", _HINT)

"""What a LoRA folder must hold before anything loads it: three files that agree with one another and with the base model."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from daemon.errors import DataError
from daemon.gguf import GGUFHeader, read_header
from daemon.records import JSON
from daemon.safetensors_file import TensorFacts, read_tensor_facts, read_tensors

_MAX_RANK: Final = 512
_FORBIDDEN: Final = re.compile(r"lm_head|embed_tokens|embeddings?\b|wte|token_embd|^output\.weight$")
_HALF: Final = re.compile(r"^(?:base_model\.model\.)?(?P<module>.+)\.lora_(?P<half>[AB])(?:\.default)?\.weight$")
_HINT: Final = "Let the trainer write it again."


class BaseFacts(Protocol):
    """What is needed of a base model: `ModelInfo` and `GGUFHeader` both have it."""

    @property
    def architecture(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LoRAFacts:
    rank: int
    alpha: float
    modules: tuple[str, ...]  # names of linear layers, such as q_proj
    tensors: int
    size_bytes: int  # of the three files
    parameters: int


def check_lora_folder(folder: Path, base: BaseFacts) -> LoRAFacts:
    """Check safetensors, configuration and GGUF of a LoRA: types, shapes, rank, finiteness, target modules, architecture.

    Raises:
        DataError: says which file is wrong, and how.
    """
    paths = [folder / name for name in ("adapter_model.safetensors", "adapter_config.json", "lora.gguf")]
    for path in paths:
        if path.is_symlink() or not path.is_file():
            raise DataError(f"The LoRA has no file {path.name}.", _HINT)
    rank, alpha = _read_config(paths[1])
    facts = read_tensor_facts(paths[0])
    modules = _check_halves(facts, rank)
    for _ in read_tensors(paths[0], facts):
        pass  # reading refuses what is not finite
    _check_gguf(read_header(paths[2]), base, alpha, rank, len(facts))
    return LoRAFacts(
        rank=rank,
        alpha=alpha,
        modules=tuple(sorted({module.rsplit(".", 1)[-1] for module in modules})),
        tensors=len(facts),
        size_bytes=sum(path.stat().st_size for path in paths),
        parameters=sum(math.prod(tensor.shape) for tensor in facts),
    )


def layer_norms(safetensors: Path, alpha: float, rank: int) -> dict[str, float]:
    """Frobenius norm of each module's change to its weight, `alpha / rank · B A`.

    ‖BA‖² = Σ (BᵀB ∘ AAᵀ), so that no full matrix is ever made. Raises DataError.
    """
    halves = {(module, half): values for module, half, values in _halves(safetensors)}
    norms: dict[str, float] = {}
    for (module, half), down in halves.items():
        up = halves.get((module, "B"))
        if half == "A" and up is not None:
            norms[module] = alpha / rank * math.sqrt(max(0.0, float(((up.T @ up) * (down @ down.T)).sum())))
    return norms


def _halves(path: Path) -> list[tuple[str, str, NDArray[np.float32]]]:
    found: list[tuple[str, str, NDArray[np.float32]]] = []
    for tensor, values in read_tensors(path, read_tensor_facts(path)):
        match = _HALF.match(tensor.name)
        if match:
            found.append((match["module"], match["half"], values))
    return found


def _read_config(path: Path) -> tuple[int, float]:
    try:
        config: JSON = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path.name} is no JSON.", _HINT) from error
    if not isinstance(config, dict):
        raise DataError(f"{path.name} is no JSON object.", _HINT)
    rank, alpha = config.get("r"), config.get("lora_alpha")
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= _MAX_RANK:
        raise DataError(f"{path.name}: the rank r is {rank!r}, not a whole number from 1 to {_MAX_RANK}.", _HINT)
    if not isinstance(alpha, int | float) or isinstance(alpha, bool) or not 0 < alpha < 1e4:
        raise DataError(f"{path.name}: lora_alpha is {alpha!r}, not a number from 0 to 10000.", _HINT)
    for key in ("modules_to_save", "trainable_token_indices", "rank_pattern", "alpha_pattern"):
        if config.get(key):
            raise DataError(f"{path.name}: {key} is not supported.", "Train linear layers of attention and MLP alone, all at one rank.")
    return rank, float(alpha)


def _check_halves(facts: list[TensorFacts], rank: int) -> set[str]:
    halves: dict[str, set[str]] = {}
    for tensor in facts:
        match = _HALF.match(tensor.name)
        if match is None:
            raise DataError(f"adapter_model.safetensors: {tensor.name[:100]!r} is no half of a LoRA.", _HINT)
        if _FORBIDDEN.search(match["module"]):
            raise DataError(f"The LoRA changes {match['module']}.", "Never train the output layer or the embeddings.")
        if len(tensor.shape) != 2 or tensor.shape[0 if match["half"] == "A" else 1] != rank:
            raise DataError(f"{tensor.name} has the shape {list(tensor.shape)}, which does not fit rank {rank}.", _HINT)
        halves.setdefault(match["module"], set()).add(match["half"])
    for module, both in halves.items():
        if both != {"A", "B"}:
            raise DataError(f"The LoRA has only one half of {module}.", _HINT)
    if not halves:
        raise DataError("adapter_model.safetensors holds no tensor.", _HINT)
    return set(halves)


def _check_gguf(header: GGUFHeader, base: BaseFacts, alpha: float, rank: int, tensors: int) -> None:
    if header.metadata.get("general.type") != "adapter" or header.metadata.get("adapter.type") != "lora":
        raise DataError("lora.gguf is no LoRA.", _HINT)
    if header.architecture != base.architecture:
        raise DataError(
            f"The LoRA is for the architecture {header.architecture!r}; the base model is {base.architecture!r}.",
            "Train it on the model that is served.",
        )
    written = header.metadata.get("adapter.lora.alpha")
    if not isinstance(written, int | float) or not math.isclose(written, alpha, rel_tol=1e-5):
        raise DataError(f"lora.gguf says alpha {written!r}, adapter_config.json {alpha:g}.", _HINT)
    if header.tensor_count != tensors:
        raise DataError(f"lora.gguf has {header.tensor_count} tensors, adapter_model.safetensors {tensors}.", _HINT)
    for tensor in header.tensors:
        if not tensor.name.endswith((".lora_a", ".lora_b")) or _FORBIDDEN.search(tensor.name.rsplit(".", 1)[0]):
            raise DataError(f"lora.gguf changes {tensor.name[:100]!r}.", "Train linear layers of attention and MLP alone.")
        if len(tensor.shape) != 2 or tensor.shape[1 if tensor.name.endswith("a") else 0] != rank:
            raise DataError(f"lora.gguf: {tensor.name} has the shape {list(tensor.shape)}, which does not fit rank {rank}.", _HINT)

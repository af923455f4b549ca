"""Small LoRA folders in the real formats, for tests: PEFT's names in safetensors, and the GGUF file beside them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from daemon.training.lora_gguf import BaseShape, write_lora_gguf

SHAPE = BaseShape(architecture="llama", layers=2, heads=2, key_value_heads=1)
RANK, ALPHA = 4, 8.0


def tensors(scale: float = 1.0) -> dict[str, NDArray[np.float32]]:
    random = np.random.default_rng(1)
    found: dict[str, NDArray[np.float32]] = {}
    for layer in range(SHAPE.layers):
        for module, rows in (("self_attn.q_proj", 8), ("self_attn.k_proj", 4), ("self_attn.o_proj", 8), ("mlp.down_proj", 8)):
            name = f"base_model.model.model.layers.{layer}.{module}"
            found[f"{name}.lora_A.weight"] = random.normal(size=(RANK, 8)).astype(np.float32)
            found[f"{name}.lora_B.weight"] = (scale * random.normal(size=(rows, RANK))).astype(np.float32)
    return found


def write(folder: Path, values: dict[str, NDArray[np.float32]] | None = None, **config: object) -> Path:
    folder.mkdir(parents=True)
    values = tensors() if values is None else values
    save_file(values, folder / "adapter_model.safetensors")
    modules = ["q_proj", "k_proj", "o_proj", "down_proj"]
    settings: dict[str, object] = {"r": RANK, "lora_alpha": ALPHA, "target_modules": modules}
    (folder / "adapter_config.json").write_text(json.dumps(settings | config))
    write_lora_gguf(folder / "lora.gguf", values, SHAPE, ALPHA)
    return folder

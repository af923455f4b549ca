"""Write a trained LoRA three ways: PEFT's two files, which training can go on from, and the GGUF file that the engine loads."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from peft import PeftModel, get_peft_model_state_dict
from safetensors.numpy import save_file

from daemon.errors import DataError
from daemon.files import fsync_folder, write_atomic
from daemon.training.job import GGUF_FILE, WEIGHTS_CONFIG_FILE, WEIGHTS_FILE, TrainingJob
from daemon.training.lora_gguf import BaseShape, write_lora_gguf


def save_lora(folder: Path, model: PeftModel, shape: BaseShape, job: TrainingJob) -> None:
    """Each file appears whole or not at all.

    Raises:
        DataError: a weight is not a finite number.
    """
    tensors = lora_tensors(model)
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise DataError(f"The trained LoRA holds a weight that is no number, in {name}.", "Lower learning_rate.")
    _save_safetensors(folder / WEIGHTS_FILE, tensors)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": job.lora.rank,
        "lora_alpha": job.lora.alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": sorted(job.lora.modules),
        "base_model_name_or_path": f"{job.base.name}",
        "inference_mode": True,
        "reef_base_sha256": job.base_sha256,
    }
    write_atomic(folder / WEIGHTS_CONFIG_FILE, json.dumps(config, indent=1) + "\n")
    write_lora_gguf(folder / GGUF_FILE, tensors, shape, job.lora.alpha)


def lora_tensors(model: PeftModel) -> dict[str, NDArray[np.float32]]:
    """PEFT's names → float32: A is (rank, in), B is (out, rank)."""
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: np.ascontiguousarray(tensor.detach().float().numpy()) for name, tensor in state.items()}


def _save_safetensors(path: Path, tensors: dict[str, NDArray[np.float32]]) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        save_file(tensors, temporary, metadata={"format": "pt"})
        with temporary.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)

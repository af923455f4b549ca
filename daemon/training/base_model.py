"""The served weights, de-quantised, ready to train a LoRA on.

transformers reads the GGUF file that the engine serves; float32 copies of the very same weights. Its tokeniser is not
used: samples come as token ids from the engine.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from daemon.errors import DataError, Unsupported
from daemon.files import sha256_file
from daemon.gguf import read_header
from daemon.models import TRAINABLE_ARCHITECTURES
from daemon.training.job import LoRASettings, TrainingJob, memory_needed_bytes
from daemon.training.lora_gguf import BaseShape

_NAME = "base.gguf"


@dataclass(frozen=True, slots=True)
class BaseModel:
    model: PreTrainedModel
    shape: BaseShape


def load_base(job: TrainingJob) -> BaseModel:
    """Load `job.base` as float32.

    Raises:
        DataError: the file is missing, or is not the one that the job was made for.
        Unsupported: the architecture does not train here, or memory is short.
    """
    if not job.base.is_file():
        raise DataError(f"The base model {job.base} is missing.", "Put the file back or set engine.model.")
    if sha256_file(job.base) != job.base_sha256:
        raise DataError(
            f"{job.base} has changed since this training was prepared.",
            "Restart the daemon with `reef down` and `reef up`, then evolve again.",
        )
    check_memory(read_header(job.base).parameters)
    with _quiet(), tempfile.TemporaryDirectory(prefix="reef-base-") as alone:
        # A folder of its own: beside an `adapter_config.json`, transformers would load that in its stead.
        (Path(alone) / _NAME).symlink_to(job.base.resolve())
        try:
            model = AutoModelForCausalLM.from_pretrained(alone, gguf_file=_NAME, dtype=torch.float32, local_files_only=True)
        except (ValueError, KeyError, OSError, NotImplementedError, RuntimeError) as error:
            raise Unsupported(f"{job.base.name} cannot be loaded for training: {error}", "It serves, but does not train.") from error
    config = model.config
    architecture = str(config.model_type)
    if architecture not in TRAINABLE_ARCHITECTURES:
        raise Unsupported(
            f"The architecture {architecture} does not train here.",
            f"It serves; {', '.join(sorted(TRAINABLE_ARCHITECTURES))} train as well.",
        )
    heads = int(config.num_attention_heads)
    shape = BaseShape(architecture, int(config.num_hidden_layers), heads, int(config.num_key_value_heads or heads))
    return BaseModel(model, shape)


def check_memory(parameters: int) -> None:
    """Raises Unsupported, with the bytes, if a model of `parameters` weights cannot be trained in the memory that is free now."""
    needed, free = memory_needed_bytes(parameters), free_memory_bytes()
    if free is not None and needed > free:
        raise Unsupported(
            f"Training this model needs about {needed / 1e9:.1f} GB of memory and {free / 1e9:.1f} GB are free.",
            "Close other programs, or serve a smaller model.",
        )


def free_memory_bytes() -> int | None:
    """What the system could give now; None where it does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as stream:
            for line in stream:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        return None


def add_lora(base: BaseModel, settings: LoRASettings, seed: int) -> PeftModel:
    """Wrap the model with a fresh LoRA: it changes nothing until it is trained."""
    torch.manual_seed(seed)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.alpha,
        lora_dropout=0.0,
        bias="none",
        target_modules=list(settings.modules),
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(base.model, config)
    if not isinstance(model, PeftModel):
        raise Unsupported("PEFT made no LoRA of these settings.")
    return model


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading draws progress bars and warns of what does not concern a GGUF file."""
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield

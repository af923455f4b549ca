"""What a recipe is given to propose with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.engine.base import Capability, ModelInfo
from daemon.evolution.model_client import ModelClient
from daemon.evolution.progress import Progress
from daemon.evolution.tasks import Task
from daemon.records import JSONObject

if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.training.job import Sample
    from daemon.versions.release import Release


@dataclass(frozen=True, slots=True)
class TrainingLimits:
    """What the configuration allows a training to take."""

    rank: int = 16
    max_minutes: float = 30
    threads: int = 2
    nice: int = 19


@dataclass(frozen=True, slots=True)
class RunContext:
    """The current release, the model, the tasks that a proposer may see, and a place to work in.

    Nothing here has an effect on what serves. `tasks` holds the held-in tasks only.
    """

    scenario: str
    release: Release
    lora_folder: Path | None  # the current release's LoRA files; None: the base model alone
    model: ModelClient  # at the current release; `.at("base")` is the model alone
    model_info: ModelInfo
    capabilities: Capability
    teacher: ModelClient  # the served model unless another is configured
    tasks: tuple[Task, ...]
    rng: random.Random
    progress: Progress
    workdir: Path  # this run's own; kept until the run is collected
    seed: int
    limits: TrainingLimits
    search_paths: tuple[Path, ...] = ()  # where the user's own recipes and objectives lie

    def train(
        self,
        samples: Sequence[Sample],
        objective: str,
        settings: JSONObject,
        *,
        steps: int,
        learning_rate: float,
        batch_size: int,
        rank: int | None = None,
    ) -> Path:
        """Train a LoRA on `samples` in the trainer process; blocks until it is done, reporting each step.

        Args:
            objective: dotted path of the loss, such as `recipes.sft.objective:SFTObjective`; only the trainer imports it.
            settings: the objective's own settings.
            rank: of the LoRA; None: the configured one. Its alpha is twice that.

        Returns:
            The folder that holds `adapter_model.safetensors`, `adapter_config.json`, `lora.gguf`, `metrics.jsonl` and `result.json`;
            it is a candidate's `lora_folder`.

        Raises:
            ReefError: the trainer refused or failed, with its sentence.
        """
        from daemon.evolution.train import train

        return train(
            self,
            samples,
            objective,
            settings,
            steps=steps,
            learning_rate=learning_rate,
            batch_size=batch_size,
            rank=rank or self.limits.rank,
        )

"""What a recipe is given to propose with."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.engine.base import Capability, ModelInfo
from daemon.errors import DataError, Unsupported
from daemon.evolution.model_client import ModelClient
from daemon.evolution.progress import Progress
from daemon.evolution.tasks import Task
from daemon.records import JSONObject
from daemon.training.job import LoRASettings, Sample, TrainingJob, write_job
from daemon.training.process import run_job

if TYPE_CHECKING:
    from collections.abc import Sequence

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
        base = self.model_info.path
        if base is None:
            raise Unsupported("The served weights are not a file on this machine, so they cannot be trained.", "Serve a GGUF file.")
        if not samples:
            raise DataError("There is nothing to train on: every sample was left out.", "Report more, or see the run's notes.")
        folder = _fresh_folder(self.workdir)
        rank = rank or self.limits.rank
        job = TrainingJob(
            base=base,
            base_sha256=self.model_info.sha256,
            objective=objective,
            settings=settings,
            lora=LoRASettings(rank=rank, alpha=2 * rank),
            learning_rate=learning_rate,
            steps=steps,
            batch_size=batch_size,
            seed=self.seed,
            max_minutes=self.limits.max_minutes,
            threads=self.limits.threads,
            search_paths=tuple(str(path) for path in self.search_paths),
        )
        write_job(folder, job, samples)
        self.progress.phase("train", f"{len(samples)} samples, {steps} steps")
        result = run_job(folder, self.progress.pass_on, nice=self.limits.nice)
        self.progress.emit(
            "trained", steps=result.steps, stopped=result.stopped, loss=result.loss, tokens=result.tokens, seconds=round(result.wall_s, 1)
        )
        return folder


def _fresh_folder(workdir: Path) -> Path:
    number = 1
    while (workdir / f"training-{number}").exists():
        number += 1
    return workdir / f"training-{number}"

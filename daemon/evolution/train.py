"""`RunContext.train`: write the job folder, start the trainer, pass its progress on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from daemon.errors import DataError, Unsupported
from daemon.records import JSONObject
from daemon.training.job import LoRASettings, Sample, TrainingJob, write_job
from daemon.training.process import run_job

if TYPE_CHECKING:
    from daemon.evolution.context import RunContext


def train(
    context: RunContext,
    samples: Sequence[Sample],
    objective: str,
    settings: JSONObject,
    *,
    steps: int,
    learning_rate: float,
    batch_size: int,
    rank: int,
) -> Path:
    """See `RunContext.train`."""
    base = context.model_info.path
    if base is None:
        raise Unsupported("The served weights are not a file on this machine, so they cannot be trained.", "Serve a GGUF file.")
    if not samples:
        raise DataError("There is nothing to train on: every sample was left out.", "Report more, or see the run's notes.")
    folder = _fresh_folder(context.workdir)
    job = TrainingJob(
        base=base,
        base_sha256=context.model_info.sha256,
        objective=objective,
        settings=settings,
        lora=LoRASettings(rank=rank, alpha=2 * rank),
        learning_rate=learning_rate,
        steps=steps,
        batch_size=batch_size,
        seed=context.seed,
        max_minutes=context.limits.max_minutes,
        threads=context.limits.threads,
        search_paths=tuple(str(path) for path in context.search_paths),
    )
    write_job(folder, job, samples)
    context.progress.phase("train", f"{len(samples)} samples, {steps} steps")
    result = run_job(folder, context.progress.pass_on, nice=context.limits.nice)
    context.progress.emit(
        "trained", steps=result.steps, stopped=result.stopped, loss=result.loss, tokens=result.tokens, seconds=round(result.wall_s, 1)
    )
    return folder


def _fresh_folder(workdir: Path) -> Path:
    number = 1
    while (workdir / f"training-{number}").exists():
        number += 1
    return workdir / f"training-{number}"

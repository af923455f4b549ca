"""From configuration and what serves to a run's job."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from daemon.config import Config
from daemon.engine.base import Engine
from daemon.engine.llama.machine import physical_cores
from daemon.evolution.context import TrainingLimits
from daemon.evolution.job import GateChoice, Replayed, RunJob, TeacherChoice
from daemon.paths import Home
from daemon.records import JSON
from daemon.versions.release import Release


def run_job(
    *,
    run_id: str,
    scenario: str,
    home: Home,
    base_url: str,
    recipe: str,
    search_paths: Sequence[Path],
    settings: Mapping[str, JSON],
    release: Release,
    lora_folder: Path | None,
    engine: Engine,
    config: Config,
    dry_run: bool,
    seed: int | None,
    reread: bool,
    personal: Mapping[str, tuple[str, ...]],
    replays: Replayed | None = None,
) -> RunJob:
    """What a run is told. The evaluation of what serves stays here: replies to held-out tasks would tell a proposer what they ask."""
    evaluation, training, teacher = config.evaluation, config.training, config.teacher
    return RunJob(
        run_id=run_id,
        scenario=scenario,
        folder=home.runs / run_id,
        home=home.root,
        base_url=base_url,
        recipe=recipe,
        search_paths=tuple(search_paths),
        settings=dict(settings),
        release=replace(release, evaluation_json=None),
        lora_folder=lora_folder,
        model=engine.model,
        capabilities=engine.capabilities.value,
        tasks=evaluation.tasks_folder(home) / scenario,
        looks=home.root / "looks" / f"{scenario}.jsonl",
        gate=GateChoice(kind=evaluation.gate, alpha=evaluation.alpha, probe_max_rise=evaluation.probe_max_rise),
        training=TrainingLimits(rank=training.rank, max_minutes=training.max_minutes, threads=physical_cores(), nice=training.nice),
        teacher=TeacherChoice(**teacher.model_dump(), spent=home.root / "teacher-spent.json") if teacher is not None else None,
        seed=seed if seed is not None else secrets.randbelow(2**31),
        dry_run=dry_run,
        reread=reread,
        replays=replays,
        personal=dict(personal),
    )

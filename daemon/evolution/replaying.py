"""What a run is given that evaluates an aged candidate again, instead of letting a recipe propose."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from daemon.errors import Conflict, DataError
from daemon.evolution.job import Replayed
from daemon.evolution.provenance import mutations_of
from daemon.harness.validate import check_harness
from daemon.versions.release import Release
from daemon.versions.replay import Replay
from daemon.versions.repository import Repository

PROMOTE: Final = "promote"
"""The kind of such a run, in its configuration."""
REPLAYED_LORA: Final = "replayed-lora"
"""The folder in the run's own that the candidate's LoRA is checked out to."""


def check_fits(replay: Replay) -> None:
    """Raises Conflict where the files of the two together are none that an agent could read."""
    candidate, head = replay.candidate, replay.head
    try:
        check_harness(replay.tree)
    except DataError as error:
        raise Conflict(
            f"The changes of {candidate.id} and what {head.id} serves do not fit together: {error.message}",
            f"Nothing has changed. Run the recipe again on {head.id}: `reef evolve`.",
        ) from error


def replayed(replay: Replay, repository: Repository, folder: Path, who: str, confirmed: Collection[str]) -> Replayed:
    """The candidate on the head, its LoRA checked out below `folder`. Raises DataError where the LoRA is damaged."""
    candidate = replay.candidate
    lora_folder = repository.checkout_lora_folder(candidate, folder / REPLAYED_LORA) if replay.new_lora is not None else None
    manifest = candidate.manifest
    return Replayed(
        release_id=candidate.id,
        commit_id=candidate.commit_id,
        compared_with=replay.compared.id,
        change=manifest.change,
        mutations=mutations_of(repository, candidate),
        harness=dict(replay.tree.files),
        lora_folder=lora_folder,
        records=manifest.records,
        examples=_examples(candidate),
        recipe=manifest.recipe,
        seed=manifest.seed,
        who=who,
        confirmed=frozenset(confirmed),
    )


def _examples(candidate: Release) -> frozenset[str]:
    """The marks of the prompts that the candidate contains, as its own run wrote them down."""
    marks = (candidate.evaluation or {}).get("examples")
    return frozenset(mark for mark in marks if isinstance(mark, str)) if isinstance(marks, list) else frozenset()

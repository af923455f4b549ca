"""From a run's outcome to the draft of a release."""

from __future__ import annotations

from dataclasses import replace

from daemon.engine.base import LoRA
from daemon.errors import DataError
from daemon.evolution.consent import unconfirmed, with_yes
from daemon.evolution.job import Outcome, RunJob
from daemon.evolution.proposal import quarantine
from daemon.evolution.provenance import facts_of
from daemon.evolution.publish import engine_settings
from daemon.files import sha256_file
from daemon.harness.validate import check_harness
from daemon.harness_tree import HarnessTree
from daemon.lora_files import check_lora_folder
from daemon.records import JSONObject
from daemon.serving.releases import base_facts
from daemon.versions.manifest import Operation
from daemon.versions.release import LORA_GGUF, Draft


def checked(job: RunJob, outcome: Outcome) -> Outcome:
    """The outcome as it may be acted on: the run process ran a recipe's code, so what it says of its own candidate is not relied on.

    Raises:
        DataError: the harness is none that an agent could read.
    """
    if outcome.verdict == "nothing":
        return outcome
    tree = HarnessTree(outcome.harness)
    check_harness(tree)
    if outcome.verdict != "promoted":
        return outcome
    quarantined = quarantine(unconfirmed(job.release.tree, tree, job.personal, job.confirmed))
    return outcome if quarantined is None else outcome.model_copy(update={"verdict": "held", "sentence": quarantined.sentence})


def draft_of(job: RunJob, outcome: Outcome, evaluated: LoRA | None) -> Draft:
    """The whole candidate state: what it does not change is carried over from the release that it was compared with.

    Args:
        evaluated: the LoRA that the engine was given for the evaluation; None: nothing was played with a new one.

    Raises:
        DataError: its LoRA is not what a LoRA must be, or not the one that was evaluated.
    """
    if outcome.lora_folder is not None:
        check_lora_folder(outcome.lora_folder, job.model)
        same = evaluated is not None and sha256_file(outcome.lora_folder / LORA_GGUF) == evaluated.id
        if not same and (evaluated is not None or outcome.verdict == "promoted"):
            raise DataError("The candidate's LoRA is not the one that was evaluated.", "Leave it alone once it is proposed.")
    tree, proposed = HarnessTree(outcome.harness), outcome.mutations if job.replays is None else job.replays.mutations
    author = outcome.recipe.name if outcome.recipe is not None else f"run {job.run_id}"
    evaluation: JSONObject | None = dict(outcome.evaluation) if outcome.evaluation is not None else None
    drafted = Draft(
        scenario=job.scenario,
        operation=Operation.TRAINING,
        base=base_facts(job.model),
        harness=tree,
        lora_folder=outcome.lora_folder,
        lora=job.release.lora if outcome.lora_folder is None else None,
        change=outcome.change,
        engine=engine_settings(job.model),
        recipe=outcome.recipe,
        seed=job.seed,
        run_id=job.run_id,
        records=outcome.records,
        summary=outcome.summary,
        evaluation=evaluation,
        verdict=with_yes(f"{outcome.verdict}: {outcome.sentence}", len(job.confirmed)),
        who=f"run {job.run_id}",
        compared_with=job.release.id,
        mutations=facts_of(job.release.tree, tree, proposed, reason=outcome.reason, author=author),
    )
    replayed = job.replays
    if replayed is None:
        return drafted
    drafted = replace(drafted, seed=replayed.seed, who=replayed.who)
    if outcome.verdict != "promoted":
        return drafted
    return replace(drafted, operation=Operation.PROMOTE, restores=replayed.release_id, promotes=replayed.commit_id)

"""From a recipe's candidate to the state that would serve, and what may not be tried without a person."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.engine.base import ModelInfo
from daemon.evolution.candidate import Candidate
from daemon.evolution.evaluate import prompt_mark
from daemon.evolution.gate import Decision, Verdict
from daemon.evolution.job import Replayed
from daemon.files import sha256_file
from daemon.harness.finding import Finding
from daemon.harness.hints import read_hints, with_hints
from daemon.harness.mutations import apply
from daemon.harness.validate import check_harness
from daemon.harness_tree import HarnessTree
from daemon.lora_files import check_lora_folder
from daemon.records import JSONObject
from daemon.serving_hints import ServingHints
from daemon.versions.release import LORA_GGUF, Release


@dataclass(frozen=True, slots=True)
class Proposal:
    """The whole candidate state beside the release that it would replace."""

    tree: HarnessTree
    hints: ServingHints
    lora_folder: Path | None  # a new LoRA; None: the release's own goes on
    lora_id: str | None  # sha256 of the new LoRA's GGUF file
    examples: frozenset[str]  # marks of the prompts that it contains
    changes_anything: bool

    def to_event(self) -> JSONObject:
        """What the daemon needs to let evaluation ask for it."""
        lora = str(self.lora_folder / LORA_GGUF) if self.lora_folder is not None else None
        return {"hints": self.hints.model_dump(mode="json"), "lora": lora, "lora_id": self.lora_id}


def realise(release: Release, candidate: Candidate, model: ModelInfo) -> Proposal:
    """Apply the candidate's mutations and hints to the release's tree.

    Raises:
        DataError: a mutation does not apply, or the LoRA is not what a LoRA for `model` must be.
    """
    tree = apply(release.tree, candidate.mutations)
    if candidate.hints is not None:
        tree = with_hints(tree, candidate.hints)
    lora_id = None
    if candidate.lora_folder is not None:
        check_lora_folder(candidate.lora_folder, model)
        lora_id = sha256_file(candidate.lora_folder / LORA_GGUF)
    changed = tree.content_id != release.tree.content_id or (lora_id is not None and lora_id != release.manifest.lora_id)
    return Proposal(tree, read_hints(tree), candidate.lora_folder, lora_id, frozenset(map(prompt_mark, candidate.examples)), changed)


def realise_again(release: Release, replayed: Replayed, model: ModelInfo) -> Proposal:
    """A replayed candidate beside `release`, onto which it was put.

    Raises:
        DataError: its files are none that an agent could read, or its LoRA is not what a LoRA for `model` must be.
    """
    tree = HarnessTree(replayed.harness)
    check_harness(tree)
    lora_id = None
    if replayed.lora_folder is not None:
        check_lora_folder(replayed.lora_folder, model)
        lora_id = sha256_file(replayed.lora_folder / LORA_GGUF)
    changed = tree.content_id != release.tree.content_id or lora_id is not None
    hints, shown = read_hints(tree), {one.prompt for one in read_hints(release.tree).demonstrations}
    new = {prompt_mark(one.prompt) for one in hints.demonstrations if one.prompt not in shown}
    return Proposal(tree, hints, replayed.lora_folder, lora_id, replayed.examples | new, changed)


def quarantine(findings: Sequence[Finding]) -> Decision | None:
    """The decision to keep what the guard found for a person; None: there is nothing."""
    if findings:
        first = findings[0]
        more = f" and {len(findings) - 1} more" if len(findings) > 1 else ""
        sentence = f"quarantined for a person: {first.path}:{first.line}: {first.reason}{more}"
        return Decision(Verdict.HELD, sentence, {"findings": [f"{one.path}:{one.line}: {one.reason}" for one in findings]})
    return None

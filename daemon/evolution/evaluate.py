"""Evaluating a candidate: held-in, the general probe, held-out, the gate, and for what it accepts the sealed tasks.

What is cheap and can only reject comes first: a candidate that is worse where it could look, or that ruined the rest, spends no look at
the held-out tasks.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from daemon.evolution import probe
from daemon.evolution.gate import Decision, Evidence, Gate, Pair, Probe, Verdict, level, sign_test
from daemon.evolution.looks import Looks
from daemon.evolution.model_client import ModelClient
from daemon.evolution.play import Played, Player, answer
from daemon.evolution.progress import Progress
from daemon.evolution.tasks import Split, Task, TaskSet
from daemon.records import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class Sides:
    """The two that are compared."""

    base: ModelClient
    current: ModelClient
    candidate: ModelClient
    current_has_lora: bool
    weights_changed: bool
    examples: frozenset[str] = frozenset()  # marks (`prompt_mark`) of the prompts that the candidate contains


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that was measured, and the decision."""

    decision: Decision
    held_in: tuple[Played, ...] = ()
    held_out: tuple[Played, ...] = ()
    sealed: tuple[Played, ...] = ()
    left_out: int = 0  # tasks that the candidate contains
    probe: Probe | None = None
    answers: tuple[tuple[str, str, str], ...] = ()  # unrelated prompt, before, after

    def to_json(self) -> JSONObject:
        """The content of evaluation.json."""
        splits = {Split.HELD_IN: self.held_in, Split.HELD_OUT: self.held_out, Split.SEALED: self.sealed}
        return {
            **self.decision.to_json(),
            "splits": {split.value: _summary(played) for split, played in splits.items()},
            "tasks": {split.value: [one.to_json() for one in played] for split, played in splits.items()},
            "left_out": self.left_out,
            "probe": {"before": self.probe.reference, "after": self.probe.after, "rise": self.probe.rise} if self.probe else None,
            "unrelated": [{"prompt": prompt, "before": before, "after": after} for prompt, before, after in self.answers],
        }


class Evaluator:
    """Judges one candidate of one run."""

    def __init__(self, gate: Gate, tasks: TaskSet, looks: Looks, player: Player, progress: Progress, run_id: str, alpha: float) -> None:
        self._gate = gate
        self._tasks = tasks
        self._looks = looks
        self._player = player
        self._progress = progress
        self._run_id = run_id
        self._alpha = alpha

    def evaluate(self, sides: Sides) -> Evaluation:
        """Play, measure and decide; emits a `decision` event.

        Raises:
            ReefError: the engine is not there, or a look could not be written down.
        """
        tasks = self._tasks.without(lambda task: prompt_mark(task.last_user_text) in sides.examples)
        self._progress.phase("evaluate", f"{len(tasks.held_in)} held-in and {len(tasks.held_out)} held-out tasks")
        left_out = len(self._tasks) - len(tasks)
        if left_out:
            self._progress.note(f"{left_out} {'task is' if left_out == 1 else 'tasks are'} left out: the candidate contains the prompt.")
        held_in = self._player.play(Split.HELD_IN, tasks.held_in)
        evidence = Evidence(held_in=_pairs(held_in), weights_changed=sides.weights_changed)
        measured = self._probe(sides) if sides.weights_changed and not self._worse(evidence) else None
        evidence = replace(evidence, probe=measured)
        held_out: tuple[Played, ...] = ()
        if self._gate.objection(evidence) is None:
            evidence = replace(evidence, looks=self._look(tasks.held_out))
            held_out = self._player.play(Split.HELD_OUT, tasks.held_out)
            evidence = replace(evidence, held_out=_pairs(held_out))
        decision = self._gate.decide(evidence)
        if decision.verdict is Verdict.PROMOTED:  # a recipe brings its own gate, and that one may be willing
            decision = Gate.objection(self._gate, evidence) or decision
        answers = self._answers(sides) if held_out or decision.verdict is not Verdict.REJECTED else ()
        sealed = self._player.play(Split.SEALED, tasks.sealed) if decision.verdict is Verdict.PROMOTED else ()
        self._progress.emit("decision", **decision.to_json())
        return Evaluation(decision, held_in, held_out, sealed, left_out, measured, answers)

    def _worse(self, evidence: Evidence) -> bool:
        objection = self._gate.objection(replace(evidence, weights_changed=False))
        return objection is not None

    def _look(self, tasks: Sequence[Task]) -> int:
        """Earlier looks at these tasks; this one is written down first."""
        earlier = self._looks.count(tasks)
        if sign_test(len(tasks), 0) <= level(self._alpha, earlier):
            self._looks.add(self._run_id, tasks)
        return earlier

    def _probe(self, sides: Sides) -> Probe:
        self._progress.phase("probe", "the loss of general text, before and after")
        reference = probe.mean_loss(sides.base)
        if sides.current_has_lora:
            reference = min(reference, probe.mean_loss(sides.current))
        measured = Probe(reference, probe.mean_loss(sides.candidate))
        self._progress.emit("probe", before=measured.reference, after=measured.after, rise=measured.rise)
        return measured

    def _answers(self, sides: Sides) -> tuple[tuple[str, str, str], ...]:
        answers = []
        for prompt in probe.unrelated_prompts():
            shown = (prompt, answer(sides.current, prompt), answer(sides.candidate, prompt))
            self._progress.emit("answer", prompt=shown[0], before=shown[1], after=shown[2])
            answers.append(shown)
        return tuple(answers)


def prompt_mark(text: str) -> str:
    """What tells a prompt from others, white space and case aside, without its words: a release keeps the marks of its examples."""
    return hashlib.sha256(" ".join(text.split()).casefold().encode(errors="surrogatepass")).hexdigest()[:20]


def _pairs(played: Sequence[Played]) -> tuple[Pair, ...]:
    return tuple(one.pair for one in played)


def _summary(played: Sequence[Played]) -> JSON:
    if not played:
        return None
    before, after = [one.before for one in played], [one.after for one in played]
    return {
        "tasks": len(played),
        "score_before": statistics.fmean(max(0.0, side.score) for side in before),
        "score_after": statistics.fmean(max(0.0, side.score) for side in after),
        "passed_before": sum(side.score >= 1 for side in before),
        "passed_after": sum(side.score >= 1 for side in after),
        "tokens_before": sum(side.prompt_tokens + side.completion_tokens for side in before),
        "tokens_after": sum(side.prompt_tokens + side.completion_tokens for side in after),
        "seconds_before": statistics.fmean(side.seconds for side in before),
        "seconds_after": statistics.fmean(side.seconds for side in after),
    }

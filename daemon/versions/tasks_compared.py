"""Two releases task by task: from the one evaluation that played both, else from each one's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from daemon.records import JSON, JSONObject
from daemon.versions.release import Release
from daemon.versions.repository import Repository

SPLITS: Final = ("held-in", "held-out", "sealed")
_TIE: Final = 1e-9
_Side: TypeAlias = "tuple[str, JSONObject]"
"""A task's first line, and one attempt at it."""


class Outcome(StrEnum):
    WIN = "win"
    LOSS = "loss"
    TIE = "tie"


class Played(StrEnum):
    TOGETHER = "together"  # one evaluation played both, with the same seeds
    APART = "apart"  # two evaluations; matched by task


@dataclass(frozen=True, slots=True)
class TaskPair:
    """One task that both have answered. Scores are 0 … 1, or −1 where there was no reply to judge."""

    task: str
    prompt: str  # its first line; empty where it was not written down
    before: float
    after: float
    outcome: Outcome
    tokens_before: int
    tokens_after: int
    detail_before: str
    detail_after: str
    reply_before: str
    reply_after: str


@dataclass(frozen=True, slots=True)
class Tally:
    wins: int
    losses: int
    ties: int


@dataclass(frozen=True, slots=True)
class TasksCompared:
    played: Played | None = None  # None: there is nothing to compare
    tasks: Mapping[str, tuple[TaskPair, ...]] | None = None  # by split

    def tally(self) -> dict[str, Tally]:
        """Of each split that was played."""
        return {split: tally_of(pairs) for split, pairs in (self.tasks or {}).items() if pairs}


def compare_tasks(repository: Repository, before: Release, after: Release) -> TasksCompared:
    """Match the attempts of two releases.

    Raises:
        DataError: an evaluation is damaged.
    """
    old, new = _evaluated(repository, before), _evaluated(repository, after)
    if before.content_id == after.content_id:
        return TasksCompared()
    if new is not None and _played_against(repository, new, before):
        evaluation = new.evaluation or {}
        return _matched(Played.TOGETHER, _sides(evaluation, "before"), _sides(evaluation, "after"))
    if old is not None and _played_against(repository, old, after):
        evaluation = old.evaluation or {}
        return _matched(Played.TOGETHER, _sides(evaluation, "after"), _sides(evaluation, "before"))
    first, second = _own_side(repository, before), _own_side(repository, after)
    return _matched(Played.APART, first, second)


def tally_of(pairs: tuple[TaskPair, ...]) -> Tally:
    outcomes = [pair.outcome for pair in pairs]
    return Tally(*(outcomes.count(outcome) for outcome in (Outcome.WIN, Outcome.LOSS, Outcome.TIE)))


def _evaluated(repository: Repository, release: Release) -> Release | None:
    """The release whose evaluation played this one's content: itself, or the one that it brought back."""
    seen = {release.id}
    while release.evaluation_json is None and release.manifest.restores is not None and release.manifest.restores not in seen:
        seen.add(release.manifest.restores)
        release = repository.release(release.manifest.scenario, release.manifest.restores)
    return release if release.evaluation_json is not None else None


def _played_against(repository: Repository, evaluated: Release, other: Release) -> bool:
    compared = evaluated.manifest.parent_release_id
    if compared is None:
        return False
    return compared == other.id or repository.release(evaluated.manifest.scenario, compared).content_id == other.content_id


def _own_side(repository: Repository, release: Release) -> dict[str, dict[str, _Side]]:
    """A release's own attempts. What was never a candidate, such as the first release, was played by one that came after it."""
    evaluated = _evaluated(repository, release)
    if evaluated is not None:
        return _sides(evaluated.evaluation or {}, "after")
    scenario = release.manifest.scenario
    for one in (*repository.chain(scenario), *repository.held(scenario)):
        if one.evaluation_json is not None and _played_against(repository, one, release):
            return _sides(one.evaluation or {}, "before")
    return {}


def _sides(evaluation: JSONObject, side: str) -> dict[str, dict[str, _Side]]:
    """Split → task → first line and attempt."""
    splits = evaluation.get("tasks")
    found: dict[str, dict[str, _Side]] = {}
    for split in SPLITS:
        played = splits.get(split) if isinstance(splits, dict) else None
        for one in played if isinstance(played, list) else []:
            attempt = one.get(side) if isinstance(one, dict) else None
            if isinstance(one, dict) and isinstance(attempt, dict):
                found.setdefault(split, {})[_text(one.get("task"))] = _text(one.get("prompt")), attempt
    return found


def _matched(played: Played, old: dict[str, dict[str, _Side]], new: dict[str, dict[str, _Side]]) -> TasksCompared:
    tasks = {
        split: tuple(_pair(task, *side, *new[split][task]) for task, side in old.get(split, {}).items() if task in new.get(split, {}))
        for split in SPLITS
    }
    return TasksCompared(played, tasks) if any(tasks.values()) else TasksCompared()


def _pair(task: str, old_prompt: str, old: JSONObject, new_prompt: str, new: JSONObject) -> TaskPair:
    before, after = _number(old.get("score")), _number(new.get("score"))
    outcome = Outcome.WIN if after > before + _TIE else Outcome.LOSS if after < before - _TIE else Outcome.TIE
    return TaskPair(
        task=task,
        prompt=new_prompt or old_prompt,
        before=before,
        after=after,
        outcome=outcome,
        tokens_before=_tokens(old),
        tokens_after=_tokens(new),
        detail_before=_text(old.get("detail")),
        detail_after=_text(new.get("detail")),
        reply_before=_text(old.get("reply")),
        reply_after=_text(new.get("reply")),
    )


def _tokens(attempt: JSONObject) -> int:
    return int(_number(attempt.get("prompt_tokens")) + _number(attempt.get("completion_tokens")))


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

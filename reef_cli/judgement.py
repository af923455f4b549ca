"""An evaluation in words: what was played, what came of it, how sure that is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

SPLITS = {
    "held-in": "the tasks that the recipe may look at",
    "held-out": "the tasks that decide",
    "sealed": "played once for what was promoted; they never choose",
}

_TOKENS = ("prompt_tokens", "completion_tokens")


@dataclass(frozen=True, slots=True)
class Split:
    """One part of the tasks, played by both sides."""

    name: str
    tasks: int
    before: float  # sums of the scores
    after: float
    wins: int
    losses: int
    ties: int
    tokens: float | None  # how much more tokens it took: −.08 is eight percent less

    @property
    def points(self) -> str:
        return f"{_points(self.before)} → {_points(self.after)} of {self.tasks}"

    @property
    def tally(self) -> str:
        return f"{_count(self.wins, 'win')}, {_count(self.losses, 'loss', 'losses')}, {_count(self.ties, 'tie')}"


@dataclass(frozen=True, slots=True)
class Task:
    """One task, answered by both sides; scores are 0 … 1, or −1 where there was no reply to judge."""

    name: str
    prompt: str  # its first line
    before: JSONObject
    after: JSONObject

    @property
    def scores(self) -> tuple[float, float]:
        return number(self.before.get("score")), number(self.after.get("score"))

    @property
    def outcome(self) -> str:
        """`win`, `loss` or `tie`."""
        before, after = self.scores
        return "win" if after > before else "loss" if after < before else "tie"

    @property
    def change(self) -> str:
        return " → ".join(score(one) for one in self.scores)


def tasks(evaluation: JSONObject, split: str) -> list[Task]:
    """The tasks of one part, as evaluation.json has them."""
    return [
        Task(output.text(one.get("task"), ""), output.text(one.get("prompt"), ""), output.part(one, "before"), output.part(one, "after"))
        for one in output.rows(output.part(evaluation, "tasks"), split)
    ]


def splits(evaluation: JSONObject) -> list[Split]:
    """What a release's evaluation.json tells of each part that was played."""
    found = []
    for name in SPLITS:
        played = tasks(evaluation, name)
        if not played:
            continue
        sums = [sum(max(0.0, task.scores[side]) for task in played) for side in (0, 1)]
        outcomes = [task.outcome for task in played]
        wins, losses, ties = (outcomes.count(one) for one in ("win", "loss", "tie"))
        found.append(Split(name, len(played), sums[0], sums[1], wins, losses, ties, _tokens(played)))
    return found


def sentences(evaluation: JSONObject) -> list[str]:
    """The statistics behind the decision, a sentence each."""
    found = statistics(output.part(evaluation, "statistics"), is_played=any(split.name == "held-out" for split in splits(evaluation)))
    left_out = evaluation.get("left_out")
    if isinstance(left_out, int) and left_out:
        found.append(f"{_count(left_out, 'task')} left out: the candidate contains the prompt.")
    return found


def statistics(facts: JSONObject, *, is_played: bool) -> list[str]:
    """A gate's numbers, a sentence each; nothing for what it did not measure. `is_played`: there were held-out tasks."""
    found = []
    p, level, look = facts.get("p"), facts.get("level"), facts.get("look")
    if isinstance(p, float | int) and is_played:
        luck = f"If both were equally good, luck alone would do at least as well with probability {_short(p)}"
        allowed = f"; the gate lets pass what is at most {_short(level)}" if isinstance(level, float | int) else ""
        times = f", as this was look {look} at these tasks" if isinstance(look, int) and look > 1 else ""
        found.append(f"{luck}{allowed}{times}.")
    floor, mean = facts.get("floor"), facts.get("mean")
    if isinstance(floor, float | int) and isinstance(mean, float | int):
        found.append(f"The mean held-out score is {mean:.2f}; the floor is {floor:.2f}.")
    rise, most = facts.get("probe_rise"), facts.get("probe_max_rise")
    if isinstance(rise, float | int):
        limit = f"; at most {most * 100:.0f} % is allowed" if isinstance(most, float | int) else ""
        found.append(f"The loss of general text {'rose' if rise >= 0 else 'fell'} by {abs(rise) * 100:.1f} %{limit}.")
    more = facts.get("more_tasks")
    if isinstance(more, int):
        found.append(f"{_count(more, 'more task')} of this kind would decide.")
    return found


def number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def percent(share: float, digits: int = 0) -> str:
    """`−8 %`."""
    return f"{'−' if share < 0 else '+'}{abs(share) * 100:.{digits}f} %"


def score(value: JSON) -> str:
    """A task's score: `1`, `0.5`, or `failed` where there was no reply to judge."""
    found = number(value)
    return "failed" if found < 0 else f"{found:.2g}"


def _tokens(played: list[Task]) -> float | None:
    sums = [
        sum(number(one.get(name)) for one in side for name in _TOKENS)
        for side in zip(*((task.before, task.after) for task in played), strict=True)
    ]
    return sums[1] / sums[0] - 1 if sums[0] > 0 else None


def _points(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _count(value: int, word: str, plural: str = "") -> str:
    return f"{value} {word if value == 1 else plural or word + 's'}"


def _short(p: float) -> str:
    return "less than .001" if p < 0.001 else f"{p:.2g}".removeprefix("0")

"""Gates: may a candidate replace what serves now? A gate that cannot tell does not promote.

The paired gate. Candidate and current play the same held-out tasks; a task on which the candidate scores higher is a
win, lower a loss, else a tie. If both were equally good, wins among the `n = wins + losses` untied tasks would be
Binomial(n, 1/2), so the one-sided exact p is P(X ≥ wins). Promote iff p ≤ the level, and the mean held-in and held-out
differences are ≥ 0, and the general probe rises by no more than its limit.

Spending alpha. Asking again and again with one held-out set finds luck. The k-th look at a set is therefore tested at
alpha·6/(π²k²); these levels add up to alpha, so the chance that *any* of them promotes a candidate that is no better stays
≤ alpha (Bonferroni). Looks are counted by `daemon.evolution.looks`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from daemon.records import JSON, JSONObject

FAILED_SCORE = -1.0
"""A failed episode: below any score that a checker gives (0 … 1)."""
_TIE = 1e-9


class Verdict(StrEnum):
    PROMOTED = "promoted"
    REJECTED = "rejected"  # worse
    HELD = "held"  # not enough evidence, or a person has to look


@dataclass(frozen=True, slots=True)
class Pair:
    """One task's two scores: 0 … 1, or `FAILED_SCORE`."""

    task: str
    before: float
    after: float


@dataclass(frozen=True, slots=True)
class Tally:
    wins: int
    losses: int
    ties: int
    delta: float  # mean of after minus before; 0 without tasks

    @property
    def tasks(self) -> int:
        return self.wins + self.losses + self.ties

    @classmethod
    def of(cls, pairs: tuple[Pair, ...]) -> Tally:
        differences = [pair.after - pair.before for pair in pairs]
        wins = sum(difference > _TIE for difference in differences)
        losses = sum(difference < -_TIE for difference in differences)
        delta = math.fsum(differences) / len(differences) if differences else 0.0
        return cls(wins, losses, len(pairs) - wins - losses, delta)

    def __str__(self) -> str:
        return f"{_count(self.wins, 'win')}, {_count(self.losses, 'loss', 'losses')}, {_count(self.ties, 'tie')}"


@dataclass(frozen=True, slots=True)
class Probe:
    """Mean token loss (nats) of the general text set. `reference` is the lower of base model and current release,
    so that many small rises cannot add up."""

    reference: float
    after: float

    @property
    def rise(self) -> float:
        """.05: five percent."""
        return self.after / self.reference - 1 if self.reference > 0 else math.inf


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that a gate may look at."""

    held_in: tuple[Pair, ...] = ()
    held_out: tuple[Pair, ...] = ()
    probe: Probe | None = None  # None: not measured
    weights_changed: bool = False
    looks: int = 0  # how often this held-out set was asked before


@dataclass(frozen=True, slots=True)
class Decision:
    verdict: Verdict
    sentence: str
    statistics: Mapping[str, JSON] = field(default_factory=dict)

    def to_json(self) -> JSONObject:
        return {"verdict": self.verdict.value, "sentence": self.sentence, "statistics": dict(self.statistics)}


def sign_test(wins: int, losses: int) -> float:
    """P(X ≥ wins) for X ~ Binomial(wins + losses, 1/2), exact; 1 without untied tasks."""
    untied = wins + losses
    term = math.comb(untied, wins)
    tail = 0
    for k in range(wins, untied + 1):
        tail += term
        term = term * (untied - k) // (k + 1)
    return float(tail / 2**untied)


def level(alpha: float, looks: int) -> float:
    """What the next look may spend after `looks` earlier ones: alpha·6/(π²k²) with k = looks + 1."""
    return alpha * 6 / (math.pi**2 * (looks + 1) ** 2)


def more_tasks(tally: Tally, alpha: float, limit: int = 500) -> int | None:
    """How many more tasks would decide if wins, losses and ties kept coming at today's rates; None: not within `limit`.

    Exact up to 50, then in steps of a tenth.
    """
    if tally.wins <= tally.losses:
        return None
    more = 0
    while (more := more + max(1, more // 10 if more >= 50 else 1)) <= limit:
        scale = (tally.tasks + more) / tally.tasks
        if sign_test(math.floor(tally.wins * scale + _TIE), math.ceil(tally.losses * scale - _TIE)) <= alpha:
            return more
    return None


class Gate(ABC):
    """Decides from evidence alone; has no side effect."""

    name: ClassVar[str]

    def __init__(self, *, probe_max_rise: float = 0.05) -> None:
        self.probe_max_rise = probe_max_rise

    @abstractmethod
    def decide(self, evidence: Evidence) -> Decision: ...

    def objection(self, evidence: Evidence) -> Decision | None:
        """What no gate lets through: worse on the tasks, or general ability lost."""
        held_in, held_out = Tally.of(evidence.held_in), Tally.of(evidence.held_out)
        facts = self.facts(evidence)
        if held_in.delta < -_TIE:
            return Decision(Verdict.REJECTED, f"worse on the held-in tasks: {held_in}", facts)
        if held_out.delta < -_TIE:
            return Decision(Verdict.REJECTED, f"worse on the held-out tasks: {held_out}", facts)
        if evidence.probe is not None and not evidence.probe.rise <= self.probe_max_rise + _TIE:  # NaN must not pass
            return Decision(
                Verdict.REJECTED,
                f"the loss of general text rose by {evidence.probe.rise:.1%}; at most {self.probe_max_rise:.1%} is allowed",
                facts,
            )
        if evidence.weights_changed and evidence.probe is None:
            return Decision(Verdict.HELD, "the weights changed and the general probe was not measured", facts)
        return None

    def facts(self, evidence: Evidence) -> dict[str, JSON]:
        """The numbers behind the sentence, as evaluation.json keeps them."""
        held_in, held_out = Tally.of(evidence.held_in), Tally.of(evidence.held_out)
        return {
            "gate": self.name,
            "held_in": _tally_json(held_in),
            "held_out": _tally_json(held_out),
            "p": sign_test(held_out.wins, held_out.losses),
            "look": evidence.looks + 1,
            "probe_rise": evidence.probe.rise if evidence.probe is not None else None,
            "probe_max_rise": self.probe_max_rise,
        }


class PairedGate(Gate):
    """The default: exact one-sided paired sign test, alpha spent across the looks at one held-out set."""

    name = "paired"

    def __init__(self, alpha: float = 0.1, *, probe_max_rise: float = 0.05) -> None:
        super().__init__(probe_max_rise=probe_max_rise)
        self.alpha = alpha

    def decide(self, evidence: Evidence) -> Decision:
        if objection := self.objection(evidence):
            return objection
        tally = Tally.of(evidence.held_out)
        p, allowed = sign_test(tally.wins, tally.losses), level(self.alpha, evidence.looks)
        spent = math.fsum(level(self.alpha, look) for look in range(evidence.looks + 1))  # at most the chance of a false promotion so far
        facts = {**self.facts(evidence), "alpha": self.alpha, "level": allowed, "alpha_spent": spent}
        if not tally.tasks:
            return Decision(Verdict.HELD, "not enough evidence: there are no held-out tasks", facts)
        if p <= allowed:
            return Decision(Verdict.PROMOTED, f"better on the held-out tasks: {tally} (p {_short(p)})", facts)
        more = more_tasks(tally, level(self.alpha, evidence.looks + 1))
        facts["more_tasks"] = more
        if more is not None:
            outlook = f"{_count(more, 'more task')} would decide"
        elif tally.wins + tally.losses == 0:
            outlook = "it changes the outcome of no task"
        else:
            outlook = "more tasks of this kind would hardly decide"
        return Decision(Verdict.HELD, f"not enough evidence: {tally}; {outlook}", facts)


class FloorGate(Gate):
    """Promotes what reaches a mean held-out score and is not worse. The user chose to do without a test of chance."""

    name = "floor"

    def __init__(self, floor: float = 0.8, *, probe_max_rise: float = 0.05) -> None:
        super().__init__(probe_max_rise=probe_max_rise)
        self.floor = floor

    def decide(self, evidence: Evidence) -> Decision:
        if objection := self.objection(evidence):
            return objection
        if not evidence.held_out:
            return Decision(Verdict.HELD, "not enough evidence: there are no held-out tasks", self.facts(evidence))
        mean = math.fsum(pair.after for pair in evidence.held_out) / len(evidence.held_out)
        facts = {**self.facts(evidence), "floor": self.floor, "mean": mean}
        if mean + _TIE < self.floor:
            return Decision(Verdict.HELD, f"the mean held-out score is {mean:.2f}; the floor is {self.floor:.2f}", facts)
        return Decision(Verdict.PROMOTED, f"the mean held-out score is {mean:.2f}, at or above the floor of {self.floor:.2f}", facts)


class ReviewGate(Gate):
    """A person promotes; what is worse is still rejected."""

    name = "review"

    def decide(self, evidence: Evidence) -> Decision:
        if objection := self.objection(evidence):
            return objection
        tally = Tally.of(evidence.held_out)
        shown = f": {tally} on the held-out tasks" if tally.tasks else ""
        return Decision(Verdict.HELD, f"waits for a person{shown}", self.facts(evidence))


def _tally_json(tally: Tally) -> JSONObject:
    return {"wins": tally.wins, "losses": tally.losses, "ties": tally.ties, "delta": tally.delta}


def _count(number: int, word: str, plural: str = "") -> str:
    return f"{number} {word if number == 1 else plural or word + 's'}"


def _short(p: float) -> str:
    return f"{p:.2g}".removeprefix("0")

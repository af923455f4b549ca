"""What a run has told so far, event by event."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject

_TIE = 1e-9


@dataclass(slots=True)
class Phase:
    name: str
    detail: str
    began_at: float
    ended_at: float | None = None
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Task:
    """Scores 0 … 1; below 0: it failed."""

    name: str
    before: float
    after: float
    reply: str

    @property
    def sign(self) -> str:
        """`+` won, `−` lost, `=` tied."""
        difference = self.after - self.before
        return "+" if difference > _TIE else "−" if difference < -_TIE else "="


@dataclass(slots=True)
class Split:
    total: int = 0
    tasks: list[Task] = field(default_factory=list)

    def count(self, sign: str) -> int:
        return sum(task.sign == sign for task in self.tasks)


class Story:
    """Grows by `take`; each event is taken once, whatever a broken connection repeats."""

    def __init__(self) -> None:
        self.cursor = 0
        self.phases: list[Phase] = []
        self.selected: JSONObject = {}
        self.losses: list[float] = []
        self.step = self.steps = 0
        self.speed = 0.0  # tokens a second
        self.trained: JSONObject = {}
        self.splits: dict[str, Split] = {}
        self.probe: JSONObject = {}
        self.answers: list[JSONObject] = []
        self.decision: JSONObject = {}
        self.result: JSONObject = {}
        self.failed: JSONObject = {}
        self.ended: JSONObject = {}

    def take(self, event: JSONObject) -> None:
        """One event of the run, as `daemon.evolution.progress` lists them; kinds that are not known are left out."""
        cursor = event.get("cursor")
        if not isinstance(cursor, int) or cursor <= self.cursor:
            return
        self.cursor = cursor
        kind, at = event.get("type"), _number(event.get("at"))
        if kind == "phase":
            name = output.text(event.get("phase"), "?")
            self._end_phases(at, but="evaluate" if name == "probe" else "")  # which goes on after it
            self.phases.append(Phase(name, output.text(event.get("detail"), ""), at))
        elif kind == "note" and self.phases:
            self.phases[-1].notes.append(output.text(event.get("text"), ""))
        elif kind == "selected":
            self.selected = event
        elif kind == "step":
            self.losses.append(_number(event.get("loss")))
            self.step, self.steps = int(_number(event.get("step"))), int(_number(event.get("steps")))
            self.speed = _number(event.get("tokens_per_s"))
        elif kind == "trained":
            self.trained = event
        elif kind == "task":
            split = self.splits.setdefault(output.text(event.get("split")), Split())
            split.total = int(_number(event.get("total")))
            before, after = _number(event.get("before")), _number(event.get("after"))
            split.tasks.append(Task(output.text(event.get("task")), before, after, output.text(event.get("reply"), "")))
        elif kind == "probe":
            self.probe = event
            self._end_phases(at, but="evaluate")
        elif kind == "answer":
            self.answers.append(event)
        elif kind == "decision":
            self.decision = event
            self._end_phases(at)
        elif kind == "result":
            self.result = event
        elif kind == "failed":
            self.failed = event
        elif kind == "ended":
            self._end_phases(at)
            self.ended = event

    def _end_phases(self, at: float, but: str = "") -> None:
        for phase in self.phases:
            if phase.ended_at is None and phase.name != but:
                phase.ended_at = at


def _number(value: JSON) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0

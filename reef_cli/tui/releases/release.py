"""One line of the chain, as the list and the details show it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from reef_cli import output

if TYPE_CHECKING:
    from daemon.records import JSON, JSONObject


class State(Enum):
    """What became of a release. The value is its sign in the list: colour is never the only one."""

    SERVING = "●"
    EARLIER = "•"
    HELD = "○"
    PROMOTED = "↑"
    REJECTED = "×"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Held-out tasks before and after, as means of scores from 0 to 1; None where nothing was played."""

    before: float | None
    after: float | None
    tasks: int
    wins: int
    losses: int
    ties: int
    p: float | None
    probe_rise: float | None

    @property
    def played(self) -> bool:
        return self.tasks > 0 and self.before is not None and self.after is not None

    def points(self, mean: float | None) -> str:
        """A mean score as the sum of its tasks' scores: `61`, or `60.5` where some were solved in part."""
        return f"{(mean or 0.0) * self.tasks:.1f}".removesuffix(".0")


@dataclass(frozen=True, slots=True)
class Release:
    """`number` orders the list; `line` is the whole change line, `change` its first part, `parts` (text, weight) what
    `reef_cli.change_line.fit` shortens it by; times in seconds since the epoch."""

    id: str
    number: int
    parent: str
    operation: str
    state: State
    pinned: bool
    aged: bool
    promoted_as: str
    collected: bool
    line: str
    change: str
    parts: tuple[tuple[str, int], ...]
    recipe: str
    run_id: str
    verdict: str
    who: str
    recorded_at: float | None
    evaluation: Evaluation | None

    @property
    def serves(self) -> bool:
        return self.state is State.SERVING

    @property
    def published(self) -> bool:
        """It is or was the head; what is not stands beside the chain."""
        return self.state in (State.SERVING, State.EARLIER)

    @property
    def by(self) -> str:
        """What made it, in one word: the recipe, or the operation."""
        return self.recipe if self.operation == "training" and self.recipe else self.operation

    @property
    def standing(self) -> str:
        """What a person has to know of it, such as `serves now` or `held: waits for evidence or for you`."""
        words = {
            State.SERVING: "serves now",
            State.EARLIER: "served before",
            State.HELD: "held: waits for evidence or for you",
            State.PROMOTED: f"promoted as {self.promoted_as}" if self.promoted_as else "promoted",
            State.REJECTED: "rejected",
        }
        parts = [words[self.state]]
        parts += ["has aged: another release serves by now"] if self.aged else []
        parts += ["pinned"] if self.pinned else []
        parts += ["weights collected"] if self.collected else []
        return " · ".join(parts)

    def matches(self, words: list[str]) -> bool:
        """Whether every word, in lower case, is a state that it is in, or in what the list or the details say of it."""
        states = {
            "serving": self.serves,
            "held": self.state is State.HELD,
            "aged": self.aged,
            "promoted": self.state is State.PROMOTED,
            "rejected": self.state is State.REJECTED,
            "pinned": self.pinned,
        }
        text = f"{self.id} {self.by} {self.line} {self.change} {self.verdict} {self.who} {self.run_id}".casefold()
        return all(states.get(word, word in text) for word in words)


def read(item: JSONObject) -> Release:
    """An item of `GET …/releases`, or the details of one release."""
    release_id = output.printable(output.text(item.get("release_id"), ""))
    recorded_at = item.get("recorded_at")
    change = _line(item, "change")
    return Release(
        id=release_id,
        number=int(release_id[1:]) if release_id[1:].isdecimal() else 0,
        parent=_line(item, "parent_release_id"),
        operation=_line(item, "operation"),
        state=_state(item),
        pinned=item.get("pinned") is True,
        aged=item.get("aged") is True,
        promoted_as=_line(item, "promoted_as"),
        collected=item.get("weights_collected") is True,
        line=_line(item, "line") or change,
        change=change,
        parts=tuple(_part(part) for part in output.rows(item, "parts")),
        recipe=_line(item, "recipe") or _line(output.part(item, "recipe"), "name"),  # the details hold its settings too
        run_id=_line(item, "run_id"),
        verdict=_line(item, "verdict"),
        who=_line(item, "who"),
        recorded_at=recorded_at if isinstance(recorded_at, float | int) else None,
        evaluation=_evaluation(output.part(item, "evaluation")),
    )


def _state(item: JSONObject) -> State:
    if item.get("current") is True:
        return State.SERVING
    if item.get("promoted_as"):
        return State.PROMOTED
    named = {"held": State.HELD, "rejected": State.REJECTED, "promoted": State.PROMOTED}
    return named.get(output.text(item.get("state")), State.EARLIER)


def _evaluation(summary: JSONObject) -> Evaluation | None:
    if not summary:
        return None
    return Evaluation(
        before=_number(summary.get("held_out_before")),
        after=_number(summary.get("held_out_after")),
        tasks=_count(summary.get("tasks")),
        wins=_count(summary.get("wins")),
        losses=_count(summary.get("losses")),
        ties=_count(summary.get("ties")),
        p=_number(summary.get("p")),
        probe_rise=_number(summary.get("probe_rise")),
    )


def _part(part: JSONObject) -> tuple[str, int]:
    return _line(part, "text"), _count(part.get("weight"))


def _line(item: JSONObject, name: str) -> str:
    """A text field on one line: what is recorded must not steer the terminal."""
    value = item.get(name)
    return output.printable(value) if isinstance(value, str) else ""


def _number(value: JSON) -> float | None:
    return float(value) if isinstance(value, float | int) and not isinstance(value, bool) else None


def _count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0

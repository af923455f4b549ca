"""The records of one session as turns: what each adds, which it goes on from, which line of the conversation it is on, and its signals."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from daemon.experience.sessions.keys import conversation_marks
from daemon.experience.sessions.memory import SessionIndex
from daemon.experience.sessions.signals import observe, signals_of
from daemon.records import Inference, Message, Report, Step, TurnKind

_GOES_ON = (Step.CONTINUE, Step.BRANCH, Step.COMPACTION)
_SAME_REQUEST = (Step.RETRY, Step.CHOICE)


@dataclass(frozen=True, slots=True)
class SessionTurn:
    inference: Inference
    reports: tuple[Report, ...] = ()  # oldest first
    signals: tuple[str, ...] = ()  # see `signals`
    added: int = 0  # `inference.messages[added:]` is what it adds to the turn that it follows
    line: int = 0  # 0: where the session began; each branch and each new beginning is a line of its own
    retries: int = 0  # how often its request came again after it

    @property
    def new_messages(self) -> tuple[Message, ...]:
        return self.inference.messages[self.added :]


@dataclass(frozen=True, slots=True)
class Linked:
    """Records of a session in order, placed, with what was observed of each by sequence."""

    inferences: Sequence[Inference]
    observed: Mapping[int, tuple[str, ...]]


def linked(inferences: Sequence[Inference], observed: Mapping[int, tuple[str, ...]]) -> Linked:
    """The records as they are where all were placed when they came; else they are placed anew, all of them, and observed."""
    if all(item.lineage.step is not Step.UNKNOWN for item in inferences):
        return Linked(inferences, observed)
    index = SessionIndex()
    placed: list[Inference] = []
    seen: dict[str, Inference] = {}
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for item in inferences:
        marks = conversation_marks(item.messages)
        lineage = index.lineage(item.scenario, item.session, item.messages, marks, item.kind)
        item = replace(item, lineage=lineage)
        index.add(item)
        placed.append(item)
        seen[item.id] = item
        parent = seen.get(lineage.follows)
        if parent is not None and lineage.step in (Step.CONTINUE, Step.BRANCH):
            found[parent.sequence] += observe(item.messages, lineage.added, None if lineage.echoed else parent.reply)
    return Linked(placed, found)


def turns_of(records: Linked, reports: Mapping[int, tuple[Report, ...]]) -> tuple[SessionTurn, ...]:
    """In the order of the records; asides among them. A further choice stands behind its first one, whichever ended first."""
    by_id = {item.id: item for item in records.inferences}
    gone_on = {item.lineage.follows for item in records.inferences if item.lineage.step in _GOES_ON}
    again = Counter(item.lineage.follows for item in records.inferences if item.lineage.step is Step.RETRY)
    lines: dict[str, int] = {}
    latest_line = -1
    turns: list[SessionTurn] = []
    for item in _firsts_first(records.inferences):
        lineage = item.lineage
        parent = by_id.get(lineage.follows)
        if item.kind is TurnKind.ASIDE:
            line = max(latest_line, 0)
        elif parent is None or lineage.step is Step.BRANCH:
            line = latest_line = latest_line + 1
        else:
            line = lines.get(parent.id, 0)
        lines[item.id] = line
        found = reports.get(item.sequence, ())
        last = item.kind is TurnKind.TURN and item.id not in gone_on and not again[item.id]
        signals = signals_of(item, found, again[item.id], records.observed.get(item.sequence, ()), last=last)
        turns.append(SessionTurn(item, found, signals, _added(item, parent), line, again[item.id]))
    return tuple(turns)


def _firsts_first(inferences: Sequence[Inference]) -> Sequence[Inference]:
    places = {item.id: item.sequence for item in inferences}

    def place(item: Inference) -> tuple[int, bool, int]:
        followed = places.get(item.lineage.follows, 0)
        return max(item.sequence, followed), followed > item.sequence, item.sequence

    return sorted(inferences, key=place)


def _added(item: Inference, parent: Inference | None) -> int:
    """Where what is new begins: behind what it shares with the turn that it follows, and behind that turn's reply."""
    if parent is None:
        return 0
    if item.lineage.step in _SAME_REQUEST:
        return len(item.messages)
    place = 0
    for mine, theirs in zip(item.messages, parent.messages, strict=False):
        if mine is not theirs and mine != theirs:
            return place
        place += 1
    whole = place == len(parent.messages) and place < len(item.messages)
    return place + 1 if whole and item.messages[place].get("role") == "assistant" else place

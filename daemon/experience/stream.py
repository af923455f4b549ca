"""The experience stream: turns with their feedback, what followed them, and how stale they are. What recipes consume."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from daemon.experience.database import storage_errors
from daemon.experience.instructions import Instruction, instructions
from daemon.experience.operations import Served, read_lora_history
from daemon.experience.reader import Reader
from daemon.experience.runs import MAX_ATTEMPTS
from daemon.experience.sessions.signals import signals_of
from daemon.experience.sessions.turns import SessionTurn, linked, turns_of
from daemon.records import Inference, Message, Report, Status, Step

_LIMIT = 1000

_TURNS = """
SELECT r.sequence, i.session FROM records r JOIN scenarios c ON c.id = r.scenario JOIN inferences i ON i.sequence = r.sequence
WHERE c.name = :scenario AND r.kind = 'inference' AND i.kind = 'turn' AND i.status <> 'error'
"""
# New: not consumed and not tried too often, or spoken of since the release or the run that last took it.
_NEW = """
AND (
  (NOT EXISTS (SELECT 1 FROM consumption WHERE scenario = :scenario AND record = r.id)
   AND (SELECT count(*) FROM run_records t JOIN runs ON runs.id = t.run
        WHERE t.record = r.id AND runs.status IN ('done', 'failed')) < :attempts)
  OR EXISTS (
    SELECT 1 FROM report_references f JOIN records p ON p.sequence = f.report WHERE f.target = r.sequence AND p.created_at > max(
      coalesce((SELECT at FROM consumption WHERE scenario = :scenario AND record = r.id), 0),
      coalesce((SELECT max(runs.ended_at) FROM run_records t JOIN runs ON runs.id = t.run
                WHERE t.record = r.id AND runs.status IN ('done', 'failed')), 0)))
)
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, as a recipe sees it."""

    inference: Inference
    reports: tuple[Report, ...] = ()  # oldest first
    next_state: tuple[Message, ...] = ()  # what followed: the user's next message, tool results; () for a session's last turn
    lag: int = 0  # how many different LoRAs, other than its own, have served since
    retries: int = 0  # how often the same request was sent again in its session
    signals: tuple[str, ...] = ()  # see `signals`

    @property
    def receipt(self) -> str:
        return self.inference.id

    @property
    def score(self) -> float | None:
        """The latest score that a report gave."""
        return next((report.score for report in reversed(self.reports) if report.score is not None), None)

    @property
    def correction(self) -> str | None:
        """The reply as the user would have had it, from the latest report that says so."""
        return next((report.correction for report in reversed(self.reports) if report.correction is not None), None)


class ExperienceStream:
    """Read-only; a run process opens it by path. Asides and failed requests are left out, retries count once."""

    def __init__(self, reader: Reader, scenario: str) -> None:
        self._reader = reader
        self.scenario = scenario

    @classmethod
    def open(cls, path: Path, scenario: str) -> ExperienceStream:
        return cls(Reader(path), scenario)

    def __enter__(self) -> ExperienceStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._reader.close()

    def new(self, limit: int = _LIMIT) -> list[Turn]:
        """Turns that no release in force was made from and that may still trigger a run, oldest first, the newest `limit`."""
        return self._turns(_TURNS + _NEW, limit)

    def all(self, limit: int = _LIMIT) -> list[Turn]:
        """The newest `limit` turns, consumed or not, oldest first: a recipe may reread."""
        return self._turns(_TURNS, limit)

    def turn(self, receipt: str) -> Turn | None:
        """One turn by its receipt; None for what is none."""
        found = self._turns(f"{_TURNS} AND r.id = :receipt", 1, receipt)
        return found[0] if found else None

    def instructions(self, limit: int = 100, *, new: bool = True) -> list[Instruction]:
        """What users said in words (`reef train`), oldest first; `new`: only what no release in force was made from."""
        with storage_errors():
            return instructions(self._reader, self.scenario, new=new, limit=limit)

    def _turns(self, query: str, limit: int, receipt: str = "") -> list[Turn]:
        values = {"scenario": self.scenario, "attempts": MAX_ATTEMPTS, "limit": limit, "receipt": receipt}
        with storage_errors():
            rows = self._reader.connection().execute(f"{query} ORDER BY r.sequence DESC LIMIT :limit", values).fetchall()
            wanted: dict[int, set[int]] = defaultdict(set)
            for sequence, session in rows:
                wanted[session].add(sequence)
            history = read_lora_history(self._reader, self.scenario)
            turns: list[Turn] = []
            for session, sequences in wanted.items():
                turns.extend(self._of_session(session, sequences, history))
        return sorted(turns, key=lambda turn: turn.inference.sequence)

    def _of_session(self, session: int, sequences: set[int], history: Sequence[Served]) -> Iterable[Turn]:
        """Turns among `sequences`. The rest of the session is read too: it holds what followed, and the retries."""
        reader = self._reader
        where = "WHERE i.session = ? AND i.kind = 'turn' AND i.status <> 'error' ORDER BY i.sequence"
        placed = linked(reader.loader().inferences(where, (session,)), reader.observed("i.session = ?", (session,)))
        reports = reader.reports_by_target("i.session = ?", (session,))
        turns = turns_of(placed, reports)
        followers: dict[str, Inference] = {}
        for item in placed.inferences:
            if item.lineage.step in (Step.CONTINUE, Step.BRANCH):
                followers.setdefault(item.lineage.follows, item)
        for turn, again in _once(turns, followers):
            item = turn.inference
            if item.sequence in sequences:
                signals = (
                    turn.signals
                    if again == turn.retries
                    else signals_of(item, turn.reports, again, turn.signals, last="succeeded" in turn.signals)
                )
                yield Turn(item, turn.reports, _next_state(item, followers.get(item.id)), _lag(item, history), again, signals)


def _once(turns: Sequence[SessionTurn], followers: Mapping[str, Inference]) -> list[tuple[SessionTurn, int]]:
    """Of each request that came again, or was answered more than once: the reported replies, else the one from which the
    conversation went on, else the latest whole one; with how often it came again."""
    requests: dict[str, str] = {}  # a record, and the first one of the same request
    groups: dict[str, list[SessionTurn]] = defaultdict(list)
    for turn in turns:
        item = turn.inference
        same = item.lineage.step in (Step.RETRY, Step.CHOICE) and item.lineage.follows
        first = requests[item.id] = requests.get(item.lineage.follows, item.lineage.follows) if same else item.id
        groups[first].append(turn)
    kept: list[tuple[SessionTurn, int]] = []
    for group in groups.values():
        again = sum(turn.inference.lineage.step is Step.RETRY for turn in group)
        chosen = [turn for turn in group if turn.reports] or [turn for turn in group if turn.inference.id in followers][-1:]
        chosen = chosen or [max(group, key=lambda turn: (turn.inference.status is Status.OK, turn.inference.sequence))]
        kept.extend((turn, again) for turn in chosen)
    return sorted(kept, key=lambda found: found[0].inference.sequence)


def _next_state(item: Inference, follower: Inference | None) -> tuple[Message, ...]:
    """What the next request that goes on from this reply adds to it; after a compaction nothing does."""
    if follower is None:
        return ()
    place = len(item.messages)
    echo = place < len(follower.messages) and follower.messages[place].get("role") == "assistant"
    return follower.messages[place + 1 if echo else place :]


def _lag(item: Inference, history: Sequence[Served]) -> int:
    """Different LoRAs since the record; the place of its release counts, for a session stays on an older one for a while."""
    if item.wire == "import":
        return 0  # no LoRA of ours said it
    start = next((index for index in range(len(history) - 1, -1, -1) if history[index].release_id == item.release_id), None)
    since = [entry for entry in history if entry.at > item.created_at] if start is None else history[start + 1 :]
    return len({entry.lora_id for entry in since} - {item.lora_id})

"""Sessions as an export writes them, one after the other, so that a large scenario needs no more memory than its largest session."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.experience.database import storage_errors
from daemon.experience.reader import Reader
from daemon.experience.sessions.turns import SessionTurn, linked, turns_of
from daemon.experience.statements import clean
from daemon.exporting.conversation import Conversation, Exchange
from daemon.records import Status, Step

_SESSIONS = """
SELECT s.id, s.key FROM sessions s JOIN scenarios c ON c.id = s.scenario
WHERE c.name = ? AND s.id > ? AND s.updated_at >= ? AND (? = '' OR s.key = ?) ORDER BY s.id LIMIT ?
"""


def sessions(
    reader: Reader, scenario: str, *, after: int = 0, since: float = 0.0, session: str = "", limit: int = 100
) -> list[tuple[int, str]]:
    """(number, id) of sessions in the order in which they began; `since`: those with a request since then, seconds since the epoch."""
    wanted = clean(session)
    with storage_errors():
        rows = reader.connection().execute(_SESSIONS, (scenario, after, since, wanted, wanted, limit)).fetchall()
    return [(int(number), str(key)) for number, key in rows]


def conversation(reader: Reader, scenario: str, number: int, session: str) -> Conversation:
    """The whole turns of one session, with their feedback."""
    with storage_errors():
        where = "WHERE i.session = ? AND i.kind = 'turn' AND i.status <> 'error' ORDER BY i.sequence"
        placed = linked(reader.loader().inferences(where, (number,)), reader.observed("i.session = ?", (number,)))
        turns = turns_of(placed, reader.reports_by_target("i.session = ?", (number,)))
    return Conversation(scenario, session, _exchanges(turns))


def _exchanges(turns: Sequence[SessionTurn]) -> tuple[Exchange, ...]:
    """What is written of the turns. One that was broken off is not, but what goes on from it goes on from what stands before it."""
    before: dict[str, str] = {}  # receipt → the one that its turn goes on from
    first: dict[str, str] = {}  # receipt → that of the first turn with the same request
    places: dict[str, int] = {}
    first_places: dict[str, int] = {}
    found: list[Exchange] = []
    for turn in turns:
        item, lineage = turn.inference, turn.inference.lineage
        if lineage.step in (Step.RETRY, Step.CHOICE) and lineage.follows in first:
            first[item.id], before[item.id] = first[lineage.follows], before[lineage.follows]
        else:
            first[item.id], before[item.id] = item.id, lineage.follows if lineage.step in (Step.CONTINUE, Step.BRANCH) else ""
        if item.status is not Status.OK or not item.messages:
            continue
        parent = before[item.id]
        while parent and parent not in places:
            parent = before.get(parent, "")
        places[item.id] = len(found)
        first_place = first_places.setdefault(first[item.id], len(found))
        found.append(Exchange(item, turn.reports, places[parent] if parent else None, first_place))
    return tuple(found)

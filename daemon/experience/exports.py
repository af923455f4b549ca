"""Sessions as an export writes them, one after the other, so that a large scenario needs no more memory than its largest session."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.experience.database import storage_errors
from daemon.experience.reader import Reader
from daemon.experience.rows import clean
from daemon.experience.sessions import SessionTurn, linked, turns_of
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
    return Conversation(
        scenario, session, _exchanges([turn for turn in turns if turn.inference.status is Status.OK and turn.inference.messages])
    )


def _exchanges(turns: Sequence[SessionTurn]) -> tuple[Exchange, ...]:
    places: dict[str, int] = {}
    found: list[Exchange] = []
    for place, turn in enumerate(turns):
        lineage = turn.inference.lineage
        places[turn.inference.id] = place
        before = places.get(lineage.follows)
        if lineage.step in (Step.RETRY, Step.CHOICE) and before is not None:  # goes on from where the first one did
            found.append(Exchange(turn.inference, turn.reports, found[before].parent, found[before].first))
        else:
            goes_on = lineage.step in (Step.CONTINUE, Step.BRANCH)
            found.append(Exchange(turn.inference, turn.reports, before if goes_on else None, place))
    return tuple(found)

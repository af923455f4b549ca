"""What a session's row counts, so that the list of sessions reads one row each: turns, asides, reports, releases, the last record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import cast

from daemon.experience.loading import STEPS
from daemon.experience.statements import insert, select
from daemon.records import Step

_REMEMBERED = 20_000
_SESSIONS = "sessions (id, scenario, key, created_at, updated_at, last_sequence, title, turns, asides, releases)"
_UPDATE = (
    "ON CONFLICT (id) DO UPDATE SET updated_at = excluded.updated_at, last_sequence = excluded.last_sequence, title = excluded.title,"
    " turns = turns + excluded.turns, asides = asides + excluded.asides, releases = excluded.releases"
)
_AGAIN = f"{STEPS.index(Step.RETRY)}, {STEPS.index(Step.CHOICE)}"
COUNTED = f"kind = 'turn' AND coalesce(step, 0) NOT IN ({_AGAIN})"
"""Which inferences count as turns: see `Session.count`."""
_REPORTS = (
    "(SELECT count(DISTINCT f.report) FROM inferences i JOIN report_references f ON f.target = i.sequence WHERE i.session = sessions.id)"
)
_RELEASES = (
    "(SELECT coalesce(json_group_array(release), '[]') FROM (SELECT release FROM inferences WHERE session = sessions.id"
    " GROUP BY release ORDER BY min(sequence)))"
)
RECOUNT = f"UPDATE sessions SET reports = {_REPORTS}, releases = {_RELEASES}"
"""Makes every session's counters of reports and releases anew; add a WHERE for some."""
WRONG = f"SELECT key FROM sessions WHERE reports <> {_REPORTS} OR releases <> {_RELEASES}"


@dataclass(slots=True)
class Session:
    """One session's row, and what a batch adds to it."""

    id: int
    scenario: int
    key: str
    created_at: float
    title: str
    releases: list[int] = field(default_factory=list)  # ids of words, oldest first
    updated_at: float = 0.0
    last_sequence: int = 0
    new_turns: int = 0
    new_asides: int = 0

    def count(self, sequence: int, at: float, release: int, *, turn: bool, aside: bool) -> None:
        """One more record. A turn's retries and further choices are neither turns nor asides."""
        self.last_sequence, self.updated_at = sequence, at
        self.new_turns += turn
        self.new_asides += aside
        if release not in self.releases:
            self.releases.append(release)


class Sessions:
    """Remembers rows of sessions; `write` stores what was counted since."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str], Session] = {}
        self._changed: dict[int, Session] = {}
        self._next_id = 0

    def forget(self) -> None:
        self._known.clear()
        self._changed.clear()

    def find(self, connection: sqlite3.Connection, wanted: Iterable[tuple[int, str]]) -> None:
        """Make these sessions (scenario, key) known, as far as they stand: one query for a batch."""
        unknown = {key for scenario, key in wanted if (scenario, key) not in self._known}
        if not unknown:
            return
        query = "SELECT id, scenario, key, created_at, title, releases FROM sessions WHERE key"
        for row in select(connection, query, list(unknown)):
            number, scenario, key, created_at, title, releases = cast("tuple[int, int, str, float, str, str]", row)
            self._known.setdefault((scenario, key), Session(number, scenario, key, created_at, title, json.loads(releases)))
        if not self._next_id:
            self._next_id = 1 + int(connection.execute("SELECT coalesce(max(id), 0) FROM sessions").fetchone()[0])

    def change(self, scenario: int, key: str, at: float) -> Session:
        """The session's row, which is about to change, after `find`; `at` is when a new one begins."""
        session = self._known.get((scenario, key))
        if session is None:
            session = self._known[scenario, key] = Session(self._next_id, scenario, key, at, "")
            self._next_id += 1
        self._changed[session.id] = session
        return session

    def write(self, connection: sqlite3.Connection) -> None:
        rows = [
            (
                one.id,
                one.scenario,
                one.key,
                one.created_at,
                one.updated_at,
                one.last_sequence,
                one.title,
                one.new_turns,
                one.new_asides,
                json.dumps(one.releases, separators=(",", ":")),
            )
            for one in self._changed.values()
        ]
        insert(connection, _SESSIONS, rows, _UPDATE)
        for one in self._changed.values():
            one.new_turns = one.new_asides = 0
        self._changed.clear()
        if len(self._known) > _REMEMBERED:
            self._known.clear()


def recount(connection: sqlite3.Connection, sessions: Iterable[int]) -> None:
    """Count the reports and releases of these sessions anew, after rows of theirs were removed."""
    for session in sessions:
        connection.execute(f"{RECOUNT} WHERE id = ?", (session,))


def count_report(connection: sqlite3.Connection, targets: Iterable[int]) -> None:
    """One more report speaks of these inferences, by sequence: one more for each of their sessions."""
    found = set(select(connection, "SELECT session FROM inferences WHERE sequence", list(targets)))
    connection.executemany("UPDATE sessions SET reports = reports + 1 WHERE id = ?", list(found))

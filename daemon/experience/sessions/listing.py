"""The list of sessions, newest first, and those whose turns and reports hold some words."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from daemon.experience.search.query import Search
from daemon.experience.search.text import Query

_SUMMARY = """
SELECT s.id, s.key, c.name, s.title, s.created_at, s.updated_at, s.turns, s.asides, s.reports, s.releases, s.last_sequence,
  (SELECT id FROM records WHERE sequence = coalesce(
    CASE WHEN s.turns > 0 THEN
      (SELECT i.sequence FROM inferences i WHERE i.session = s.id AND i.kind = 'turn' ORDER BY i.sequence DESC LIMIT 1)
    END, s.last_sequence))
FROM sessions s JOIN scenarios c ON c.id = s.scenario
"""
_SHORTEST_PREFIX = 3


@dataclass(frozen=True, slots=True)
class SessionSummary:
    id: str
    scenario: str
    title: str  # the first user's message, on one line
    created_at: float
    updated_at: float
    turns: int
    asides: int  # requests for a title, a summary, a commit message
    reports: int
    releases: tuple[str, ...]  # that answered, oldest first
    last_receipt: str  # of its newest turn; where it has asides alone, of the newest one
    last_sequence: int
    snippet: str = ""  # of a search: what was found
    found: int = 0  # of a search: the sequence of the newest turn or report that was found

    @property
    def cursor(self) -> int:
        """Pass the last one's as `before` for the next page."""
        return self.found or self.last_sequence


class SessionList:
    """Of one thread's connection."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._search = Search(connection, path)
        self._words: dict[int, str] = {}

    def close(self) -> None:
        self._search.close()

    def newest(self, scenario: str | None, limit: int, before: int | None) -> list[SessionSummary]:
        conditions, values = ["c.archived_at IS NULL"], list[str | int]()
        if scenario is not None:
            conditions.append("s.scenario = (SELECT id FROM scenarios WHERE name = ?)")
            values.append(scenario)
        if before is not None:
            conditions.append("s.last_sequence < ?")
            values.append(before)
        return [
            summary for _, summary in self._rows(f"WHERE {' AND '.join(conditions)} ORDER BY s.last_sequence DESC LIMIT {limit:d}", values)
        ]

    def search(self, words: str, scenario: str | None, limit: int, before: int | None) -> list[SessionSummary]:
        """Those that hold all the words (see `search_text.Query`) in one turn or report: the newest hit first.

        A session's or record's id finds it too. Where no turn holds the words as they are, those do that hold longer ones.
        """
        place = None
        if scenario is not None:
            row = self._connection.execute("SELECT id FROM scenarios WHERE name = ?", (scenario,)).fetchone()
            if row is None:
                return []
            place = int(row[0])
        query = Query.of(words)
        hits = self._search.sessions(query, place, limit, before)
        if not hits and before is None:
            hits = self._by_id(words.strip(), place)
        if not hits and query.phrases and all(len(phrase) >= _SHORTEST_PREFIX for phrase in query.phrases):
            query = replace(query, prefixes=True)
            hits = self._search.sessions(query, place, limit, before)
        found = dict(
            self._rows("WHERE c.archived_at IS NULL AND s.id IN (SELECT value FROM json_each(?))", [json.dumps([one for one, _ in hits])])
        )
        return [
            replace(found[session], snippet=self._search.snippet(query, sequence), found=sequence)
            for session, sequence in hits
            if session in found
        ]

    def one(self, session: str, scenario: str | None) -> tuple[int, SessionSummary] | None:
        """By its id, with its row; the newest of that name where several scenarios have one."""
        return next(
            self._rows(
                "WHERE s.key = ? AND (? IS NULL OR c.name = ?) ORDER BY s.last_sequence DESC LIMIT 1", [session, scenario, scenario]
            ),
            None,
        )

    def _by_id(self, name: str, scenario: int | None) -> list[tuple[int, int]]:
        rows = self._connection.execute(
            "SELECT s.id, s.last_sequence FROM sessions s WHERE s.key = :name AND (:scenario IS NULL OR s.scenario = :scenario)"
            " UNION SELECT i.session, i.sequence FROM records r JOIN inferences i ON i.sequence = r.sequence"
            " WHERE r.id = :name AND (:scenario IS NULL OR r.scenario = :scenario) LIMIT 5",
            {"name": name.encode("utf-8", "replace").decode(), "scenario": scenario},
        )
        return [(int(session), int(sequence)) for session, sequence in rows.fetchall()]

    def _rows(self, where: str, values: Iterable[str | int | None]) -> Iterator[tuple[int, SessionSummary]]:
        for row in self._connection.execute(_SUMMARY + where, tuple(values)).fetchall():
            number, key, scenario, title, created_at, updated_at, turns, asides, reports, releases, last_sequence, receipt = row
            names = tuple(self._word(release) for release in json.loads(releases))
            yield (
                number,
                SessionSummary(key, scenario, title, created_at, updated_at, turns, asides, reports, names, receipt or "", last_sequence),
            )

    def _word(self, number: int) -> str:
        known = self._words.get(number)
        if known is None:
            row = self._connection.execute("SELECT text FROM words WHERE id = ?", (number,)).fetchone()
            known = self._words[number] = "" if row is None else str(row[0])
        return known

"""Searching: the newest turns and reports first, grouped into their sessions."""

from __future__ import annotations

import itertools
import json
import logging
import sqlite3
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from daemon.experience.search.file import (
    Document,
    add,
    document,
    fact,
    index_path,
    next_documents,
    open_index_to_read,
    scope_of,
)
from daemon.experience.search.text import TOKENIZER, Query

_log = logging.getLogger(__name__)
_STEP = 500
_MOST_HITS = 20_000  # that are looked at, for one page
_MOST_TAIL = 128  # newest records that the index has not reached, searched here
_IGNORED_S = 10.0
_SESSIONS_OF = """
SELECT h.value, coalesce(i.session, t.session) FROM json_each(?) h LEFT JOIN inferences i ON i.sequence = h.value
LEFT JOIN report_references f ON f.report = h.value LEFT JOIN inferences t ON t.sequence = f.target
WHERE coalesce(i.session, t.session) IS NOT NULL ORDER BY h.value DESC
"""


class Search:
    """Of one thread: it holds a connection to the index."""

    def __init__(self, database: sqlite3.Connection, path: Path) -> None:
        """
        Args:
            database: of the records, for reading.
            path: its file's; the index lies beside it.
        """
        self._database = database
        self._path = index_path(path)
        self._index: sqlite3.Connection | None = None
        self._number = 0  # the file's
        self._ignored_until = 0.0

    def close(self) -> None:
        if self._index is not None:
            self._index.close()
            self._index = None

    def sessions(self, query: Query, scenario: int | None, limit: int, before: int | None) -> list[tuple[int, int]]:
        """Sessions with their newest hit, newest first, as (row, sequence of the hit). `before`: only those whose newest hit is older."""
        if not query.phrases or limit < 1:
            return []
        try:
            return self._sessions(query, scenario, limit, before)
        except sqlite3.DatabaseError as error:
            if self._index is None:
                raise
            self._ignore(error)
            return self._sessions(query, scenario, limit, before)

    def _sessions(self, query: Query, scenario: int | None, limit: int, before: int | None) -> list[tuple[int, int]]:
        expression = query.expression(None if scenario is None else scope_of(scenario))
        found: dict[int, int] = {}
        seen: set[int] = set()
        hits = itertools.islice(self._hits(expression), _MOST_HITS)
        while len(found) < limit and (step := list(itertools.islice(hits, _STEP))):
            for sequence, session in self._database.execute(_SESSIONS_OF, (json.dumps(step),)):
                if session not in seen:
                    seen.add(session)
                    if before is None or sequence < before:
                        found[session] = sequence
        return list(found.items())[:limit]

    def snippet(self, query: Query, sequence: int) -> str:
        """One line of what was found."""
        found = document(self._database, sequence, self._floor(sequence))
        return query.snippet(found.text) if found is not None else ""

    def _hits(self, expression: str) -> Iterator[int]:
        """Sequences, newest first: what the index has not reached, then the index."""
        index = self._open()
        reached, highest = (0, 0) if index is None else (fact(index, "sequence"), fact(index, "highest"))
        yield from self._tail(expression, reached, highest)
        if index is not None:
            for (sequence,) in index.execute("SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rowid DESC", (expression,)):
                yield sequence

    def _tail(self, expression: str, reached: int, highest: int) -> Sequence[int]:
        last = self._database.execute("SELECT coalesce(max(sequence), 0) FROM records").fetchone()[0]
        if last <= reached:
            return ()
        documents, _ = next_documents(self._database, max(reached, last - _MOST_TAIL), highest, _MOST_TAIL)
        return _matching(documents, expression)

    def _floor(self, sequence: int) -> int:
        """From which message on a record's text is its own; for what is not indexed yet, about the last two messages."""
        row = None
        if (index := self._open()) is not None:
            try:
                row = index.execute("SELECT floor FROM documents WHERE sequence = ?", (sequence,)).fetchone()
            except sqlite3.DatabaseError as error:
                self._ignore(error)
        if row is not None:
            return int(row[0])
        leaf = self._database.execute("SELECT prompt FROM inferences WHERE sequence = ?", (sequence,)).fetchone()
        return 0 if leaf is None or leaf[0] is None else int(leaf[0]) - 1

    def _open(self) -> sqlite3.Connection | None:
        """The index, or None; anew where it was made anew: the old file may still be open here."""
        try:
            number = self._path.stat().st_ino
        except FileNotFoundError:
            number = 0
        if number != self._number:
            self.close()
            self._number = number
        if self._index is None and number and time.monotonic() > self._ignored_until:
            self._index = open_index_to_read(self._path)
        return self._index

    def _ignore(self, error: sqlite3.DatabaseError) -> None:
        """A damaged index: it is made again at the next start, and until then the newest records are searched."""
        _log.warning("The search index cannot be read: %s. Start the daemon again.", error)
        self.close()
        self._ignored_until = time.monotonic() + _IGNORED_S


def _matching(documents: Sequence[Document], expression: str) -> list[int]:
    """Asked of an index of their own, so that the same words match as in the large one."""
    memory = sqlite3.connect(":memory:", isolation_level=None)
    try:
        memory.execute(f"CREATE VIRTUAL TABLE turns USING fts5(scope, text, content='', columnsize=0, tokenize='{TOKENIZER}')")
        memory.execute("CREATE TABLE documents (sequence INTEGER PRIMARY KEY, floor INTEGER NOT NULL)")
        add(memory, documents)
        rows = memory.execute("SELECT rowid FROM turns WHERE turns MATCH ? ORDER BY rowid DESC", (expression,))
        return [int(sequence) for (sequence,) in rows]
    finally:
        memory.close()

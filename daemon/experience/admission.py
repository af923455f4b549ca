"""How inferences get into the database: without secrets, each receipt once; first the journal, then the tables."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sqlite3
from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from daemon.errors import Conflict, ReefError, StorageError
from daemon.experience.entry import Entry
from daemon.experience.jobs import JournaledItems, savepoint
from daemon.experience.journal import Journal, set_aside
from daemon.experience.loading import Loader
from daemon.experience.rows import Rows
from daemon.experience.search.indexer import Indexer
from daemon.experience.sessions.keys import history_of
from daemon.experience.statements import clean
from daemon.failpoints import failpoint
from daemon.fingerprint import History, history
from daemon.records import Inference, Lineage, Message
from daemon.redaction.redact import RedactionRule

_log = logging.getLogger(__name__)
FULL_BYTES = 32 << 20
"""So much may wait for the tables, in memory too: half a second's work, also of a start after a crash."""
_ENTRY_BYTES = 2048  # that an entry takes in memory beside its bytes


class Admission(JournaledItems[Inference]):
    """Inferences as they came. The same id and content again: the same place; other content: `Conflict`.

    From when the journal is full until it is empty more is filed than comes, so that it can be emptied while the load lasts.
    """

    def __init__(self, rows: Rows, redaction: RedactionRule, indexer: Indexer, journal: Journal) -> None:
        self._rows = rows
        self._redaction = redaction
        self._indexer = indexer
        self._journal = journal
        self._backlog: deque[tuple[int, Entry, int]] = deque()  # sequence, entry, its bytes
        self._replies: dict[str, Message] = {}  # of what waits, by receipt
        self._bytes = 0
        self._draining = False
        self._filing = 0  # how many of the backlog the open transaction has written

    @property
    def waiting(self) -> int:
        return len(self._backlog)

    @property
    def is_full(self) -> bool:
        return self._draining

    def admit(self, connection: sqlite3.Connection, items: Sequence[Inference], doubtful: Sequence[Inference]) -> list[int]:
        replies = self._replies
        if doubtful and (self._rows.taken(connection, [item.id for item in doubtful]) or any(item.id in replies for item in doubtful)):
            raise Conflict("A receipt is taken by another record.")
        records, pasts = zip(*map(self._redacted, items), strict=True)
        entries = self._rows.entries(connection, records, pasts, replies)
        first = self._rows.take_sequences(connection, len(items), self._backlog[-1][0] if self._backlog else 0)
        waiting = [(sequence, entry, entry.to_bytes()) for sequence, entry in enumerate(entries, first)]
        self._journal.append([(sequence, data) for sequence, _, data in waiting])
        failpoint("admission.committed")
        for record, (sequence, entry, data) in zip(records, waiting, strict=True):
            size = len(data) + _ENTRY_BYTES
            replies[entry.id] = record.reply
            self._bytes += size
            self._backlog.append((sequence, entry, size))
        self._draining = self._draining or self._bytes > FULL_BYTES
        return list(range(first, first + len(items)))

    def file(self, connection: sqlite3.Connection, limit: int) -> None:
        chunk = [(sequence, entry) for sequence, entry, _ in itertools.islice(self._backlog, limit)]
        try:
            self._rows.file(connection, chunk)
        except Exception as error:  # one of them is at fault, or a bug: the others must not wait for it
            if is_of_the_disk(error):
                raise
            self._rows.forget()
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            connection.execute("BEGIN IMMEDIATE")
            for sequence, entry in chunk:
                self._file_one(connection, sequence, entry)
        self._filing = len(chunk)

    def _file_one(self, connection: sqlite3.Connection, sequence: int, entry: Entry) -> None:
        try:
            with savepoint(connection):
                self._rows.file(connection, [(sequence, entry)])
        except Exception as error:  # a bug: its receipt was given out, so it is kept for a Reef that can
            if is_of_the_disk(error):
                raise
            self._rows.forget()
            _log.exception("The record %s could not be brought into the experience database; it is kept beside it.", entry.id)
            set_aside(self._journal.path, [(sequence, entry.to_bytes())])

    def filed(self) -> None:
        for _ in range(self._filing):
            _, entry, size = self._backlog.popleft()
            self._bytes -= size
            self._replies.pop(entry.id, None)
        self._filing = 0
        if not self._backlog:
            self._draining = False
            with contextlib.suppress(StorageError):  # a start passes over what is filed; the next time it may go
                self._journal.clear()
            failpoint("filing.journal-emptied")
        self._indexer.note()

    def write(self, connection: sqlite3.Connection, items: Sequence[Inference]) -> list[int]:
        if self._rows.taken(connection, [inference.id for inference in items]):
            raise Conflict("A receipt is taken by another record.")
        records, pasts = zip(*map(self._redacted, items), strict=True)
        return self._rows.inferences(connection, records, pasts)

    def write_one(self, connection: sqlite3.Connection, item: Inference) -> int:
        record, past = self._redacted(item)
        row = connection.execute("SELECT sequence FROM records WHERE id = ?", (clean(item.id),)).fetchone()
        return self._rows.inference(connection, record, past) if row is None else _same(connection, int(row[0]), record)

    def _redacted(self, item: Inference) -> tuple[Inference, History]:
        """The record as it may be stored, and its messages' history."""
        past = history_of(item.messages, item.lineage.keys)
        record = self._redaction.redacted(item, known_as=past)
        return record, past if record.messages is item.messages else history(record.messages)

    def undone(self) -> None:
        self._filing = 0
        self._rows.forget()

    def committed(self) -> None:
        self._indexer.note()


def is_of_the_disk(error: Exception) -> bool:
    """Whether the disk or the file is at fault, and not what was to be written."""
    if isinstance(error, ReefError):
        return isinstance(error, StorageError)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError)


def _told(inference: Inference) -> Inference:
    """Without what the store adds or may leave out."""
    return replace(inference, sequence=0, tokens=None, lineage=Lineage())


def _same(connection: sqlite3.Connection, sequence: int, inference: Inference) -> int:
    stored = Loader(connection).inferences("WHERE r.sequence = ?", (sequence,))
    if stored and _told(stored[0]) == _told(inference):
        return sequence
    raise Conflict(f"The receipt {inference.id} is taken by another record.")

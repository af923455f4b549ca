"""How inferences get into the database: without secrets, each receipt once."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import replace

from daemon.errors import Conflict
from daemon.experience.loading import Loader
from daemon.experience.rows import Rows, clean
from daemon.experience.search.indexer import Indexer
from daemon.experience.sessions.keys import history_of
from daemon.experience.writer import Items
from daemon.fingerprint import History, history
from daemon.records import Inference, Lineage
from daemon.redaction.redact import RedactionRule


class Admission(Items[Inference]):
    """Inferences as they came. The same id and content again: the same place; other content: `Conflict`."""

    def __init__(self, rows: Rows, redaction: RedactionRule, indexer: Indexer) -> None:
        self._rows = rows
        self._redaction = redaction
        self._indexer = indexer

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
        self._rows.forget()

    def committed(self) -> None:
        self._indexer.note()


def _told(inference: Inference) -> Inference:
    """Without what the store adds or may leave out."""
    return replace(inference, sequence=0, tokens=None, lineage=Lineage())


def _same(connection: sqlite3.Connection, sequence: int, inference: Inference) -> int:
    stored = Loader(connection).inferences("WHERE r.sequence = ?", (sequence,))
    if stored and _told(stored[0]) == _told(inference):
        return sequence
    raise Conflict(f"The receipt {inference.id} is taken by another record.")

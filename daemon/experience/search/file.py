"""The full-text index: a file beside the database that can be made again from it, and so is never in the way of a receipt.

`turns` has a row for each turn and report, under its sequence: an index of words without the text (FTS5, contentless). `documents`
says for each from which message on its text counts, so that exactly that can be taken out again; `facts` how far the index has come.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DataError
from daemon.experience.database import storage_errors
from daemon.experience.packing import object_from_json, unpack
from daemon.experience.search.text import TOKENIZER, feedback_text, joined, message_text, spaced
from daemon.experience.statements import insert

_log = logging.getLogger(__name__)
VERSION = 1
"""Of what is indexed and how. An index of another version is made anew."""
_TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (sequence INTEGER PRIMARY KEY, floor INTEGER NOT NULL);
CREATE VIRTUAL TABLE turns USING fts5(scope, text, content='', columnsize=0, tokenize='{TOKENIZER}');
"""
_NEXT = """
SELECT r.sequence, r.scenario, r.kind, i.kind, i.reply, p.feedback,
  i.session IS NOT NULL AND NOT EXISTS (SELECT 1 FROM inferences o WHERE o.session = i.session AND o.sequence < i.sequence)
FROM records r LEFT JOIN inferences i ON i.sequence = r.sequence LEFT JOIN reports p ON p.sequence = r.sequence
"""
_CHAIN = """
WITH RECURSIVE chain (id, parent) AS (
  SELECT id, parent FROM messages WHERE id = :leaf AND id > :floor
  UNION ALL SELECT m.id, m.parent FROM chain JOIN messages m ON m.id = chain.parent WHERE m.id > :floor)
SELECT m.id, coalesce(m.body, b.data) FROM chain JOIN messages m ON m.id = chain.id LEFT JOIN blobs b ON b.id = m.blob ORDER BY m.id
"""


@dataclass(frozen=True, slots=True)
class Document:
    """What is indexed of one turn or report."""

    sequence: int
    scope: str  # the scenario, as a word of its own
    text: str
    floor: int  # messages with higher ids, from the reply upwards, are this turn's own
    highest: int = 0  # the highest id among its messages


def index_path(database: Path) -> Path:
    return database.with_name(f"{database.stem}.search{database.suffix}")


def scope_of(scenario: int) -> str:
    return f"s{scenario}"


def open_index(path: Path) -> sqlite3.Connection:
    """For writing; made anew if there is none, if it is damaged, or if it is of another version."""
    with storage_errors():
        for _ in range(2):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            try:
                _prepare(connection)
                return connection
            except sqlite3.DatabaseError:
                connection.close()
                remove(path)
        raise sqlite3.DatabaseError("the search index cannot be made")


def open_index_to_read(path: Path) -> sqlite3.Connection | None:
    """None: there is none yet, or it cannot be read."""
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA cache_size = -2048")
        version = fact(connection, "version")
    except sqlite3.DatabaseError:
        return None
    return connection if version == VERSION else None


def remove(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(name).unlink()


def fact(connection: sqlite3.Connection, name: str) -> int:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    return 0 if row is None else int(row[0])


def set_fact(connection: sqlite3.Connection, name: str, value: int) -> None:
    connection.execute("INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, value))


def add(connection: sqlite3.Connection, documents: Sequence[Document]) -> None:
    insert(connection, "turns (rowid, scope, text)", [(one.sequence, one.scope, spaced(one.text)) for one in documents])
    insert(connection, "documents (sequence, floor)", [(one.sequence, one.floor) for one in documents])


def take_out(connection: sqlite3.Connection, documents: Iterable[Document]) -> None:
    """FTS5 asks for the very text that was put in."""
    for one in documents:
        connection.execute(
            "INSERT INTO turns (turns, rowid, scope, text) VALUES ('delete', ?, ?, ?)", (one.sequence, one.scope, spaced(one.text))
        )
        connection.execute("DELETE FROM documents WHERE sequence = ?", (one.sequence,))


def next_documents(database: sqlite3.Connection, after: int, highest: int, limit: int) -> tuple[list[Document], int]:
    """Up to `limit` records after this sequence, and the last one's; what has no text is left out.

    Args:
        highest: the highest message id among earlier records: what lies above is new.
    """
    documents, last = [], after
    for row in database.execute(f"{_NEXT} WHERE r.sequence > ? ORDER BY r.sequence LIMIT ?", (after, limit)).fetchall():
        last = int(row[0])
        try:
            found = _document(database, row, 0 if row[6] else highest)
        except DataError as error:
            _log.warning("The record with sequence %d cannot be searched for: %s", last, error)
            continue
        if found is not None:
            highest = max(highest, found.highest)
            documents.append(found)
    return documents, last


def document(database: sqlite3.Connection, sequence: int, floor: int) -> Document | None:
    """One record's, as it was indexed with this floor; None: the record is not there."""
    row = database.execute(f"{_NEXT} WHERE r.sequence = ?", (sequence,)).fetchone()
    return None if row is None else _document(database, row, floor)


def lost_documents(database: sqlite3.Connection, index: sqlite3.Connection) -> list[Document]:
    """Records that the index has passed and does not hold, but for those without text. Reads all sequences."""
    have = {int(row[0]) for row in index.execute("SELECT sequence FROM documents")}
    rows = database.execute("SELECT sequence FROM records WHERE sequence <= ?", (fact(index, "sequence"),))
    found = []
    for sequence in sorted({int(row[0]) for row in rows} - have):
        one = document(database, sequence, _floor(database, sequence))
        if one is not None:
            found.append(one)
    return found


def _floor(database: sqlite3.Connection, sequence: int) -> int:
    """The highest message of the records before this one, which are not its own; 0 for the first of a session."""
    session = database.execute(
        "SELECT EXISTS (SELECT 1 FROM inferences i JOIN inferences o ON o.session = i.session AND o.sequence < i.sequence"
        " WHERE i.sequence = ?)",
        (sequence,),
    ).fetchone()
    if not session[0]:
        return 0
    return int(database.execute("SELECT coalesce(max(reply), 0) FROM inferences WHERE sequence < ?", (sequence,)).fetchone()[0])


def _document(
    database: sqlite3.Connection, row: tuple[int, int, str, str | None, int | None, str | None, int], floor: int
) -> Document | None:
    sequence, scenario, kind, turn_kind, reply, feedback, _ = row
    if kind == "report":
        text = feedback_text(object_from_json(f'{{"feedback":{feedback}}}'.encode()))
        return Document(sequence, scope_of(scenario), text, floor) if text else None
    if kind != "inference" or turn_kind != "turn":
        return None
    # The reply stands below the prompt. Where it is an old one, sent again, the prompt above it may be so too.
    chain = database.execute(_CHAIN, {"leaf": reply, "floor": floor}).fetchall() or ()
    texts = [message_text(object_from_json(unpack(data))) for _, data in chain]
    return Document(sequence, scope_of(scenario), joined(texts), floor, max((int(node) for node, _ in chain), default=0))


def _prepare(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # what a power cut takes is indexed again
    connection.execute("PRAGMA secure_delete = ON")  # forgotten means gone from the file
    connection.execute("PRAGMA journal_size_limit = 16777216")
    connection.execute("PRAGMA cache_size = -8192")
    there = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'facts'").fetchone()
    if there and fact(connection, "version") == VERSION:
        return
    if there:
        raise sqlite3.DatabaseError("another version")
    connection.execute("BEGIN IMMEDIATE")
    for statement in _TABLES.split(";\n"):
        if statement.strip():
            connection.execute(statement)
    set_fact(connection, "version", VERSION)
    connection.execute("COMMIT")

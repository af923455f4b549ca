"""What an earlier process had put into the journal and not yet into the tables, taken up at a start."""

from __future__ import annotations

import itertools
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from daemon.errors import DataError
from daemon.experience.admission import is_of_the_disk
from daemon.experience.database import storage_errors
from daemon.experience.entry import Entry
from daemon.experience.journal import (
    Damaged,
    Journal,
    damaged_path,
    entries,
    journal_path,
    keep_damaged,
    pieces,
    replace_aside,
    unfiled_path,
)
from daemon.experience.rows import Rows, last_sequence

_log = logging.getLogger(__name__)
_CHUNK = 256
_TELL_S = 1.0


def replay(connection: sqlite3.Connection, rows: Rows, journal: Journal, say: Callable[[str], None]) -> int:
    """Bring all of the journal into the tables, and empty it. What was set aside is tried again.

    What is damaged is kept apart, and what stands behind it taken up all the same.

    Returns:
        How many bytes of the journal could not be read.

    Raises:
        StorageError: the disk fails; the journal is as it was. DataError: a newer Reef wrote it.
    """
    refused: list[tuple[int, bytes]] = []
    damaged: list[Damaged] = []
    with storage_errors():
        last = last_sequence(connection)
        aside = unfiled_path(journal.path)
        waiting = itertools.chain(
            (one for one in _whole(aside, damaged) if not _stands(connection, one[0])),
            (one for one in _whole(journal.path, damaged) if one[0] > last),
        )
        done, told = 0, time.monotonic()
        while chunk := list(itertools.islice(waiting, _CHUNK)):
            refused += _file(connection, rows, chunk)
            done += len(chunk)
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                say(f"taking up {done} records from the journal after an unclean stop")
    for stretch in damaged:
        keep_damaged(journal.path, stretch)
    replace_aside(journal.path, refused)
    journal.clear()
    return sum(len(stretch.data) for stretch in damaged)


def _whole(path: Path, damaged: list[Damaged]) -> Iterator[tuple[int, bytes]]:
    """The entries; what stands between them goes into `damaged`."""
    for one in pieces(path):
        if isinstance(one, Damaged):
            damaged.append(one)
        else:
            yield one


def drop_unfiled(database: Path, scenario: str, session: str) -> None:
    """Erase what of a session was set aside, and what could not be read: nobody knows whose that is. Raises StorageError."""
    journal = journal_path(database)
    damaged_path(journal).unlink(missing_ok=True)
    aside = list(entries(unfiled_path(journal)))
    if aside:
        replace_aside(journal, [(sequence, data) for sequence, data in aside if not _is_of(data, scenario, session)])


def _is_of(data: bytes, scenario: str, session: str) -> bool:
    try:
        entry = Entry.from_bytes(data)
    except DataError:
        return False
    return (entry.scenario, entry.session) == (scenario, session)


def _file(connection: sqlite3.Connection, rows: Rows, chunk: list[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
    """In one transaction; those that the tables do not take."""
    readable = list(_readable(chunk))
    try:
        _commit(connection, rows, [entry for entry, _ in readable])
        return [one for one in chunk if one not in [raw for _, raw in readable]] if len(readable) < len(chunk) else []
    except Exception as error:  # one of them is at fault, or a bug: alone, the others are taken
        if is_of_the_disk(error):
            raise
    taken = []
    for numbered, raw in readable:
        try:
            _commit(connection, rows, [numbered])
            taken.append(raw)
        except Exception as error:
            if is_of_the_disk(error):
                raise
            _log.exception("The record %s could not be brought into the experience database; it is kept beside it.", numbered[1].id)
    return [one for one in chunk if one not in taken]


def _commit(connection: sqlite3.Connection, rows: Rows, numbered: list[tuple[int, Entry]]) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        rows.file(connection, numbered)
        connection.execute("COMMIT")
    except BaseException:
        rows.forget()
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _readable(chunk: list[tuple[int, bytes]]) -> Iterator[tuple[tuple[int, Entry], tuple[int, bytes]]]:
    for sequence, data in chunk:
        try:
            yield (sequence, Entry.from_bytes(data)), (sequence, data)
        except DataError:
            _log.exception("An entry of the journal cannot be read; it is kept beside the database.")


def _stands(connection: sqlite3.Connection, sequence: int) -> bool:
    return connection.execute("SELECT 1 FROM records WHERE sequence = ?", (sequence,)).fetchone() is not None

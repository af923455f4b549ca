"""Deleting what nothing refers to any more, a part at a time, so that writers wait a few milliseconds at most."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Collection

from daemon.experience.database import storage_errors
from daemon.experience.reader import Reader
from daemon.experience.removal.garbage import Garbage, chunks, delete, find_garbage
from daemon.experience.store import Store

_STEP_ROWS = 400
_PAUSE_S = 0.01
_FACT = "erasing"


def sweep(store: Store) -> int:
    """Delete messages from the leaves up, so that none is left without its beginning, then blocks and blobs; how many rows went.

    Blocks, and reads the whole database first. Raises StorageError.
    """
    with contextlib.closing(Reader(store.path)) as reader, storage_errors():
        connection = reader.connection()
        blobs = {int(row[0]) for row in connection.execute("SELECT id FROM blobs")}
        garbage = find_garbage(connection, (), blobs)
    found = garbage.rows
    for kind, rows in enumerate((garbage.messages, garbage.blocks, garbage.blobs)):
        for step in chunks(sorted(rows, reverse=True), _STEP_ROWS):
            store.alone(lambda connection, kind=kind, step=step: _delete_part(connection, garbage, kind, step)).result()  # type: ignore[misc]
            time.sleep(_PAUSE_S)
    return found


def begin_erasing(store: Store) -> None:
    """Note that rows are about to go: what a crash leaves over is swept at the next start."""
    store.execute(lambda connection: connection.execute("INSERT OR REPLACE INTO facts VALUES (?, '1')", (_FACT,)).rowcount).result()


def end_erasing(store: Store) -> None:
    store.execute(lambda connection: connection.execute("DELETE FROM facts WHERE name = ?", (_FACT,)).rowcount).result()


def was_erasing(store: Store) -> bool:
    """Whether an erasing was cut off."""
    with contextlib.closing(Reader(store.path)) as reader, storage_errors():
        return reader.connection().execute("SELECT 1 FROM facts WHERE name = ?", (_FACT,)).fetchone() is not None


def _delete_part(connection: sqlite3.Connection, garbage: Garbage, kind: int, rows: Collection[int]) -> None:
    """`kind`: 0 messages, 1 blocks, 2 blobs."""
    garbage.spare_new(connection)
    kinds = (garbage.messages, garbage.blocks, garbage.blobs)
    left = kinds[kind] & set(rows)
    messages, blocks, blobs = (left if number == kind else set[int]() for number in range(3))
    delete(connection, Garbage(messages, blocks, blobs))
    kinds[kind].difference_update(left)

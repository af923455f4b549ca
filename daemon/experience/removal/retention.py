"""Removing the oldest sessions, whole, where the experience grows too large or too old.

It works in small steps, so that a record that comes meanwhile waits a few milliseconds at most, and what a crash leaves half done the
next round finishes. Freed pages are used again; the file itself shrinks only while it is small.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import cast

from daemon.experience.database import storage_errors
from daemon.experience.packing import object_from_json
from daemon.experience.reader import Reader
from daemon.experience.removal.forget import REWRITTEN_BYTES, remove_records, remove_reports
from daemon.experience.removal.garbage import chunks
from daemon.experience.removal.sweeping import begin_erasing, end_erasing, sweep
from daemon.experience.statements import select
from daemon.experience.store import Store

RECENT_S = 3600.0
"""A session that was used this recently is under way, and stays."""
REPORTED_S = 30 * 86400.0
"""A session with feedback makes room only once it is this old: it is what recipes learn from."""
_STEP_RECORDS = 50
_PAUSE_S = 0.02  # between two steps, for those who wait to write
_ROUNDS = 8
_PAGE = 500
_FACT = "retention"

_OLDEST = """
SELECT s.id, s.updated_at, s.reports,
  EXISTS (SELECT 1 FROM inferences i JOIN words w ON w.id = i.wire WHERE i.session = s.id AND w.text = 'import') FROM sessions s
WHERE (s.updated_at, s.id) > (?, ?) ORDER BY s.updated_at, s.id LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """0: no limit."""

    bytes: int = 0
    days: float = 0.0


@dataclass(frozen=True, slots=True)
class Removed:
    """What was removed to make room; in all since the database began where `read_removed` says so."""

    sessions: int = 0
    records: int = 0
    at: float | None = None  # the last time, in seconds since the epoch


def used_bytes(reader: Reader) -> int:
    """What the experience takes, pages that were freed apart."""
    with storage_errors():
        connection = reader.connection()
        pages, free, size = (
            int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "freelist_count", "page_size")
        )
    return (pages - free) * size


def read_removed(reader: Reader) -> Removed:
    with storage_errors():
        row = reader.connection().execute("SELECT value FROM facts WHERE name = ?", (_FACT,)).fetchone()
    return Removed() if row is None else Removed(**object_from_json(str(row[0]).encode()))  # type: ignore[arg-type]  # written below


def keep_within(store: Store, reader: Reader, limits: Limits, needed: Collection[str], now: float) -> Removed:
    """Remove what is too old, then the oldest until what is left fits. Blocks, for as long as it takes; call it in a thread.

    Args:
        needed: receipts that a release refers to; their sessions stay.

    Raises:
        StorageError: the disk fails; what was not removed yet stays whole.
    """
    needed = frozenset(needed)
    sessions = records = 0
    if limits.days:
        too_old = now - limits.days * 86400
        doomed = [session for session, at, _, imported in _oldest(reader) if at < too_old and not imported]
        sessions, records = _remove(store, reader, doomed, needed, now)
    for _ in range(_ROUNDS):
        excess = used_bytes(reader) - limits.bytes if limits.bytes else 0
        if excess <= 0:
            break
        more = _remove(store, reader, _making_room(reader, excess, needed, now), needed, now)
        if not more[0]:
            break  # all that is left is needed, or too new
        sessions, records = sessions + more[0], records + more[1]
    return Removed(sessions, records, now if sessions else None)


def _oldest(reader: Reader) -> Iterator[tuple[int, float, int, bool]]:
    """Every session, the longest unused first: row, when it was used last, reports on it, whether it was imported."""
    at, row = 0.0, 0
    while True:
        with storage_errors():
            page = reader.connection().execute(_OLDEST, (at, row, _PAGE)).fetchall()
        yield from ((int(session), float(used), int(reports), bool(imported)) for session, used, reports, imported in page)
        if len(page) < _PAGE:
            return
        row, at = int(page[-1][0]), float(page[-1][1])


def _making_room(reader: Reader, excess: int, needed: Collection[str], now: float) -> list[int]:
    """The oldest sessions that take up about `excess` bytes, as far as their share of all records tells."""
    with storage_errors():
        whole = int(reader.connection().execute("SELECT count(*) FROM inferences").fetchone()[0])
    wanted = max(1, round(whole * excess / max(1, used_bytes(reader))))
    chosen: list[int] = []
    for session, at, reports, _ in _oldest(reader):
        if wanted <= 0 or at > now - RECENT_S:
            break
        if reports and at > now - REPORTED_S:
            continue
        sequences = _sequences(reader, session)
        if not _is_needed(reader, sequences, needed):
            chosen.append(session)
            wanted -= len(sequences)
    return chosen


def _remove(store: Store, reader: Reader, sessions: Collection[int], needed: Collection[str], now: float) -> tuple[int, int]:
    """How many sessions and records went."""
    gone = records = 0
    begin_erasing(store)
    for session in sessions:
        sequences = _sequences(reader, session)
        if not sequences or _is_needed(reader, sequences, needed) or _is_recent(reader, session, now):
            continue
        with storage_errors():
            query = "SELECT DISTINCT report FROM report_references WHERE target"
            reports = sorted({int(cast(int, row[0])) for row in select(reader.connection(), query, list(sequences))})
        store.forget_words((*sequences, *reports), wipe=False)
        for step in chunks(reports, _STEP_RECORDS):
            store.alone(lambda connection, step=step: remove_reports(connection, step)).result()  # type: ignore[misc]
        for step in chunks(sequences, _STEP_RECORDS):
            store.alone(lambda connection, step=step: remove_records(connection, step)).result()  # type: ignore[misc]
            time.sleep(_PAUSE_S)
        gone, records = gone + 1, records + len(sequences)
        removed = Removed(1, len(sequences), now)
        store.execute(lambda connection, removed=removed: _note(connection, removed)).result()  # type: ignore[misc]
    if gone:
        sweep(store)
        store.forget_placed()
        store.scrub(REWRITTEN_BYTES).result()
    end_erasing(store)
    return gone, records


def _sequences(reader: Reader, session: int) -> list[int]:
    with storage_errors():
        rows = reader.connection().execute("SELECT sequence FROM inferences WHERE session = ? ORDER BY sequence", (session,))
        return [int(row[0]) for row in rows]


def _is_needed(reader: Reader, sequences: Collection[int], needed: Collection[str]) -> bool:
    """A release refers to a record of the session, or a run is reading it."""
    with storage_errors():
        connection = reader.connection()
        receipts = [str(row[0]) for row in select(connection, "SELECT id FROM records WHERE sequence", list(sequences))]
        if any(receipt in needed for receipt in receipts):
            return True
        if any(select(connection, "SELECT 1 FROM consumption WHERE record", list(receipts))):
            return True
        running = "SELECT 1 FROM run_records t JOIN runs ON runs.id = t.run AND runs.status = 'running' WHERE t.record"
        return any(True for _ in select(connection, running, list(receipts)))


def _is_recent(reader: Reader, session: int, now: float) -> bool:
    with storage_errors():
        row = reader.connection().execute("SELECT updated_at FROM sessions WHERE id = ?", (session,)).fetchone()
    return row is None or float(row[0]) > now - RECENT_S


def _note(connection: sqlite3.Connection, removed: Removed) -> None:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (_FACT,)).fetchone()
    before = json.loads(row[0]) if row is not None else {"sessions": 0, "records": 0}
    value = {"sessions": before["sessions"] + removed.sessions, "records": before["records"] + removed.records, "at": removed.at}
    connection.execute(
        "INSERT INTO facts VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (_FACT, json.dumps(value))
    )

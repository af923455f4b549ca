"""What `reef fsck` asks of the experience database beyond SQLite's own check. Works with the daemon down."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from daemon.errors import DataError, ReefError
from daemon.experience.database import storage_errors
from daemon.experience.entry import Entry
from daemon.experience.journal import Damaged, damaged_path, entries, journal_path, pieces, unfiled_path
from daemon.experience.loading import STEPS
from daemon.experience.packing import digest, object_from_json, unpack, unpack_trace
from daemon.experience.reader import Reader
from daemon.experience.schema import MIGRATIONS
from daemon.experience.search.file import index_path, open_index_to_read
from daemon.experience.sessions.tallies import COUNTED, WRONG
from daemon.records import Step

_LOOKS = 5
_MESSAGES = """
SELECT m.id, m.hash, p.hash, m.body, b.data FROM messages m LEFT JOIN messages p ON p.id = m.parent LEFT JOIN blobs b ON b.id = m.blob
"""
_BLOCKS = "SELECT t.id, t.hash, p.hash, t.data FROM token_blocks t LEFT JOIN token_blocks p ON p.id = t.parent"
_BARE = """
SELECT r.id FROM records r LEFT JOIN inferences i ON i.sequence = r.sequence LEFT JOIN reports p ON p.sequence = r.sequence
LEFT JOIN imports m ON m.sequence = r.sequence WHERE i.sequence IS NULL AND p.sequence IS NULL AND m.sequence IS NULL
"""
_COUNTERS = f"""
SELECT s.key FROM sessions s WHERE
  s.turns <> (SELECT count(*) FROM inferences i WHERE i.session = s.id AND {COUNTED})
  OR s.asides <> (SELECT count(*) FROM inferences i WHERE i.session = s.id AND i.kind <> 'turn')
  OR NOT EXISTS (SELECT 1 FROM inferences i WHERE i.session = s.id AND i.sequence = s.last_sequence)
"""
_DETAILS = "SELECT r.id, i.detail, i.trace FROM inferences i JOIN records r ON r.sequence = i.sequence"
_UNCALLED = f"""
SELECT r.id FROM inferences i JOIN records r ON r.sequence = i.sequence
WHERE i.parent = i.sequence OR i.parent > i.sequence AND coalesce(i.step, 0) <> {STEPS.index(Step.CHOICE)}
"""
_WORDS_OF_NOTHING = "SELECT count(*) FROM search.documents d LEFT JOIN records r ON r.sequence = d.sequence WHERE r.sequence IS NULL"
_NO_WORDS = """
SELECT count(*) FROM inferences i LEFT JOIN search.documents d ON d.sequence = i.sequence
WHERE d.sequence IS NULL AND i.kind = 'turn' AND i.sequence <= (SELECT value FROM search.facts WHERE name = 'sequence')
"""


def check(path: Path) -> list[str]:
    """Sentences about what does not hold: a content that is not what its hash says, a record without its content.

    Returns an empty list for a database that is whole, or not there. Raises StorageError where it cannot be read at all.
    """
    if not path.exists():
        return []
    reader = Reader(path)
    try:
        with storage_errors():
            return [*_problems(reader.connection()), *_journal_problems(path)]
    finally:
        reader.close()


def check_search(path: Path) -> list[str]:
    """The same of the full-text index beside the database at `path`."""
    index = index_path(path)
    if not path.exists() or not index.exists():
        return []
    found = open_index_to_read(index)
    if found is None:
        return ["The search index cannot be read, or an earlier Reef made it."]
    found.close()
    reader = Reader(path)
    try:
        connection = reader.connection()
        connection.execute("ATTACH ? AS search", (f"{index.absolute().as_uri()}?mode=ro",))
        return list(_search_problems(connection))
    except sqlite3.DatabaseError as error:
        return [f"The search index is damaged: {error}."]
    finally:
        reader.close()


def logged_releases(reader: Reader) -> dict[str, list[str]]:
    """Per scenario the release ids that its operation log names, oldest first."""
    logged: dict[str, list[str]] = {}
    with storage_errors():
        rows = reader.connection().execute("SELECT scenario, after FROM operations WHERE after IS NOT NULL ORDER BY id")
        for scenario, release in rows:
            logged.setdefault(scenario, []).append(release)
    return logged


def published_releases(reader: Reader) -> dict[str, list[str]]:
    """The same of releases that were a head, and are: without the candidates that were held or rejected."""
    published: dict[str, list[str]] = {}
    with storage_errors():
        rows = reader.connection().execute(
            "SELECT scenario, after FROM operations WHERE after IS NOT NULL AND operation NOT IN ('held', 'rejected') ORDER BY id"
        )
        for scenario, release in rows:
            published.setdefault(scenario, []).append(release)
    return published


def _problems(connection: sqlite3.Connection) -> Iterator[str]:
    for blob, address, data in connection.execute("SELECT id, hash, data FROM blobs"):
        if not _holds(address, None, data, nested=False):
            yield f"The stored text {blob} is not what its hash says."
    for message, address, parent, body, large in connection.execute(_MESSAGES):
        if not _holds(address, parent, large if body is None else body, nested=True):
            yield f"The stored message {message} is not what its hash says."
    for block, address, parent, data in connection.execute(_BLOCKS):
        if not _holds(address, parent, data, nested=False):
            yield f"The stored token ids {block} are not what their hash says."
    if connection.execute("PRAGMA user_version").fetchone()[0] < len(MIGRATIONS):
        return  # of an earlier Reef: the next start brings it up to date, and what follows asks for what it has not
    for table, row, target, _ in connection.execute("PRAGMA foreign_key_check"):
        yield f"The row {row} of {table} refers to nothing in {target}."
    blobs = {number for (number,) in connection.execute("SELECT id FROM blobs")}
    for record, detail, trace in connection.execute(_DETAILS):
        if not _is_readable(detail, trace, blobs):
            yield f"The record {record} cannot be read."
    for (record,) in connection.execute(_UNCALLED):
        yield f"The record {record} goes on from one that came after it."
    for (record,) in connection.execute(_BARE):
        yield f"The record {record} has no content."
    for (session,) in connection.execute(_COUNTERS):
        yield f"The session {session} counts its turns wrongly."
    for (session,) in connection.execute(WRONG):
        yield f"The session {session} counts its reports or releases wrongly."


def _journal_problems(path: Path) -> Iterator[str]:
    """What waits in the journal is no problem: the next start takes it up."""
    journal = journal_path(path)
    damaged = damaged_path(journal)
    if damaged.exists():
        size = damaged.stat().st_size
        yield (
            f"{size} bytes of the journal could not be read at a start, and the records in them are lost; they are kept in {damaged.name}."
            " Delete it once you do not want them any more."
        )
    try:
        found = _settled(journal)
    except ReefError as error:
        yield error.message
        return
    for one in found:
        if isinstance(one, Damaged):
            yield f"{len(one.data)} bytes of the journal cannot be read, from byte {one.at} on; what stands behind them can."
            continue
        sequence, data = one
        try:
            entry = Entry.from_bytes(data)
        except DataError:
            yield f"The journal's entry {sequence} cannot be read."
            continue
        for piece in entry.messages:
            if piece.address != digest(piece.parent, piece.content) or (piece.body and piece.content != digest(piece.body)):
                yield f"The journal's record {entry.id} holds a message that is not what its hash says."
    if count := sum(1 for _ in entries(unfiled_path(journal))):
        yield f"The database did not take {count} records; they are kept in {unfiled_path(journal).name} and tried again at each start."


def _settled(journal: Path) -> list[tuple[int, bytes] | Damaged]:
    """What stands in the journal; a daemon may be emptying and filling it meanwhile, which looks like damage."""
    for _ in range(_LOOKS):
        before = _stamp(journal)
        found = list(pieces(journal))
        if not any(isinstance(one, Damaged) for one in found) or _stamp(journal) == before:
            return found
    return [one for one in found if not isinstance(one, Damaged)]


def _stamp(path: Path) -> tuple[int, int]:
    try:
        stat = path.stat()
    except FileNotFoundError:
        return 0, 0
    return stat.st_size, stat.st_mtime_ns


def _search_problems(connection: sqlite3.Connection) -> Iterator[str]:
    result = connection.execute("PRAGMA search.quick_check(1)").fetchone()[0]
    if result != "ok":
        yield f"The search index is damaged: {result}."
        return
    if count := connection.execute(_WORDS_OF_NOTHING).fetchone()[0]:
        yield f"The search index holds words of {count} records that are gone."
    erasing = connection.execute("SELECT 1 FROM facts WHERE name = 'erasing'").fetchone()  # cut off: the next start puts it right
    if not erasing and (count := connection.execute(_NO_WORDS).fetchone()[0]):
        yield f"The search index lacks {count} turns."


def _is_readable(detail: bytes, trace: bytes | None, blobs: set[int]) -> bool:
    try:
        fields = object_from_json(unpack(detail))
        if trace is not None:
            unpack_trace(trace)
    except (DataError, ValueError):
        return False
    large = fields.get("large")
    return not isinstance(large, dict) or all(blob in blobs for blob in large.values())


def _holds(address: bytes, parent: bytes | None, packed: bytes | None, *, nested: bool) -> bool:
    if packed is None:
        return False
    try:
        plain = unpack(packed)
    except DataError:
        return False
    return address == digest(parent or b"", digest(plain) if nested else plain)

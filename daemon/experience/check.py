"""What `reef fsck` asks of the experience database beyond SQLite's own check. Works with the daemon down."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from daemon.errors import DataError
from daemon.experience.database import storage_errors
from daemon.experience.packing import digest, unpack
from daemon.experience.reader import Reader

_MESSAGES = """
SELECT m.id, m.hash, p.hash, m.body, b.data FROM messages m LEFT JOIN messages p ON p.id = m.parent LEFT JOIN blobs b ON b.id = m.blob
"""
_BLOCKS = "SELECT t.id, t.hash, p.hash, t.data FROM token_blocks t LEFT JOIN token_blocks p ON p.id = t.parent"
_BARE = """
SELECT r.id FROM records r LEFT JOIN inferences i ON i.sequence = r.sequence LEFT JOIN reports p ON p.sequence = r.sequence
LEFT JOIN imports m ON m.sequence = r.sequence WHERE i.sequence IS NULL AND p.sequence IS NULL AND m.sequence IS NULL
"""
_COUNTERS = """
SELECT s.key FROM sessions s WHERE s.turns <> (SELECT count(*) FROM inferences i WHERE i.session = s.id AND i.kind = 'turn')
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
            return list(_problems(reader.connection()))
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
    for (record,) in connection.execute(_BARE):
        yield f"The record {record} has no content."
    for (session,) in connection.execute(_COUNTERS):
        yield f"The session {session} counts its turns wrongly."


def _holds(address: bytes, parent: bytes | None, packed: bytes | None, *, nested: bool) -> bool:
    if packed is None:
        return False
    try:
        plain = unpack(packed)
    except DataError:
        return False
    return address == digest(parent or b"", digest(plain) if nested else plain)

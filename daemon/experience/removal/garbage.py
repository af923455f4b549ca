"""What nothing refers to any more once some records are gone: messages, blocks of token ids, blobs.

They are found by reading the whole database, which takes seconds where it is large, on a connection of one's own; records that come
meanwhile are looked at again on the writing connection, just before anything is deleted.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import cast

from daemon.experience.packing import object_from_json, unpack

_LEAVES = "SELECT sequence, prompt, effective, reply, token_block FROM inferences"
_MESSAGES = "SELECT id, parent, blob FROM messages ORDER BY id DESC"


@dataclass(slots=True)
class Garbage:
    """Row ids, and up to where the database was read."""

    messages: set[int] = field(default_factory=set)
    blocks: set[int] = field(default_factory=set)
    blobs: set[int] = field(default_factory=set)
    last_sequence: int = 0
    last_message: int = 0

    @property
    def rows(self) -> int:
        return len(self.messages) + len(self.blocks) + len(self.blobs)

    def spare_new(self, connection: sqlite3.Connection) -> None:
        """Leave what records that were stored since refer to."""
        new = connection.execute(f"{_LEAVES} WHERE sequence > ?", (self.last_sequence,)).fetchall()
        for _, prompt, effective, reply, block in new:
            for leaf in (prompt, effective, reply):
                self._spare_messages(connection, leaf)
            self._spare_blocks(connection, block)
        for (blob,) in connection.execute("SELECT blob FROM messages WHERE id > ? AND blob IS NOT NULL", (self.last_message,)):
            self.blobs.discard(blob)
        for (detail,) in connection.execute("SELECT detail FROM inferences WHERE sequence > ?", (self.last_sequence,)):
            self.blobs -= blobs_of(detail)

    def _spare_messages(self, connection: sqlite3.Connection, row: int | None) -> None:
        """A message and those before it, with their blobs."""
        while row is not None:
            self.messages.discard(row)
            found = connection.execute("SELECT parent, blob FROM messages WHERE id = ?", (row,)).fetchone()
            row, blob = cast("tuple[int | None, int | None]", found or (None, None))
            if blob is not None:
                self.blobs.discard(blob)

    def _spare_blocks(self, connection: sqlite3.Connection, row: int | None) -> None:
        while row is not None:
            self.blocks.discard(row)
            found = connection.execute("SELECT parent FROM token_blocks WHERE id = ?", (row,)).fetchone()
            row = None if found is None else cast("int | None", found[0])


def find_garbage(connection: sqlite3.Connection, gone: Collection[int], blobs: Collection[int] = ()) -> Garbage:
    """What is left over without the inferences `gone` (sequences), whatever was left over before included.

    Args:
        blobs: those that their details named; other blobs of details are taken to be in use.
    """
    connection.execute("BEGIN")  # one view of the database, whatever is written meanwhile
    try:
        return _find(connection, gone, set(blobs))
    finally:
        connection.execute("COMMIT")


def blobs_of(detail: bytes) -> set[int]:
    """The blobs that hold an inference's large request fields."""
    large = object_from_json(unpack(detail)).get("large")
    return {blob for blob in large.values() if isinstance(blob, int)} if isinstance(large, dict) else set()


def delete(connection: sqlite3.Connection, garbage: Garbage) -> None:
    """On the writing connection, foreign keys off."""
    for table, rows in (("messages", garbage.messages), ("token_blocks", garbage.blocks), ("blobs", garbage.blobs)):
        connection.executemany(f"DELETE FROM {table} WHERE id = ?", [(row,) for row in rows])


def _find(connection: sqlite3.Connection, gone: Collection[int], blobs: set[int]) -> Garbage:
    found = Garbage(
        last_sequence=_one(connection, "SELECT coalesce(max(sequence), 0) FROM records"),
        last_message=_one(connection, "SELECT coalesce(max(id), 0) FROM messages"),
    )
    messages = bytearray(found.last_message + 1)  # 1: in use
    blocks = bytearray(_one(connection, "SELECT coalesce(max(id), 0) FROM token_blocks") + 1)
    for sequence, prompt, effective, reply, block in connection.execute(_LEAVES):
        if sequence not in gone:
            messages[reply] = messages[prompt or 0] = messages[effective or 0] = blocks[block or 0] = 1
    kept: set[int] = set()  # blobs of messages in use
    maybe: set[int] = set()
    for row, parent, blob in connection.execute(_MESSAGES):  # children have higher ids than their parents
        if messages[row]:
            messages[parent or 0] = 1
            if blob is not None:
                kept.add(blob)
        else:
            found.messages.add(row)
            if blob is not None:
                maybe.add(blob)
    for row, parent in connection.execute("SELECT id, parent FROM token_blocks ORDER BY id DESC"):
        if blocks[row]:
            blocks[parent or 0] = 1
        else:
            found.blocks.add(row)
    found.blobs = (maybe | blobs) - kept
    _spare_named(connection, gone, found.blobs)
    return found


def _spare_named(connection: sqlite3.Connection, gone: Collection[int], blobs: set[int]) -> None:
    """Leave those that the details of other inferences name; the newest are asked first, for most share their tools."""
    if not blobs:
        return
    for sequence, detail in connection.execute("SELECT sequence, detail FROM inferences ORDER BY sequence DESC"):
        if sequence not in gone:
            blobs -= blobs_of(detail)
            if not blobs:
                return


def _one(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def chunks(rows: Iterable[int], size: int) -> list[list[int]]:
    """`rows` in lists of at most `size`."""
    ordered = list(rows)
    return [ordered[start : start + size] for start in range(0, len(ordered), size)]

"""Content stored once: messages and token ids as forests, large bodies as blobs. A batch's pieces are written at once.

Runs on the writer's thread, inside its transaction. It remembers the rows of what it has written or found.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import cast

from daemon.experience.entry import Entry, Piece
from daemon.experience.packing import LARGE_BYTES, pack
from daemon.experience.preparing import Remembered
from daemon.experience.statements import Value, insert, select


class Forest:
    """`write` for all of a batch; rows are known after that. `forget` after a rollback, and where rows were removed."""

    def __init__(self) -> None:
        self._messages: Remembered[bytes, int] = Remembered()  # rows by address
        self._blocks: Remembered[bytes, int] = Remembered()
        self._blobs: Remembered[bytes, int] = Remembered()  # by content hash
        self._highest: dict[str, int] = {}  # row id by table; nobody else adds rows

    def forget(self) -> None:
        for memory in (self._messages, self._blocks, self._blobs):
            memory.clear()

    def trim(self) -> None:
        for memory in (self._messages, self._blocks, self._blobs):
            memory.trim()

    def message(self, address: bytes) -> int | None:
        """The row of a message of the last batch, or of one that it names; None for no address."""
        return self._messages[address] if address else None

    def block(self, address: bytes) -> int | None:
        return self._blocks[address] if address else None

    def blob(self, content: bytes) -> int:
        return self._blobs[content]

    def write(self, connection: sqlite3.Connection, entries: Sequence[Entry]) -> None:
        """Give every piece its row, found in the database or inserted, and find the rows of what the entries only name."""
        messages: dict[bytes, Piece] = {}
        blocks: dict[bytes, Piece] = {}
        blobs: dict[bytes, bytes] = {}
        named: set[bytes] = set()  # messages
        named_blocks: set[bytes] = set()
        for entry in entries:
            for piece in entry.messages:
                messages.setdefault(piece.address, piece)
                named.add(piece.parent)
            for piece in entry.blocks:
                blocks.setdefault(piece.address, piece)
                named_blocks.add(piece.parent)
            blobs.update(entry.blobs)
            named.update((entry.prompt, entry.effective, entry.reply))
            named_blocks.add(entry.block)
        new = self._missing(connection, "messages", self._messages, messages, named)
        wanted = {content for entry in entries for _, content in entry.large}
        for piece in new:
            if not piece.body:
                wanted.add(piece.content)
            elif len(piece.body) > LARGE_BYTES:
                blobs[piece.content] = piece.body
        self._write_blobs(connection, blobs, wanted)
        rows: list[tuple[Value, ...]] = []
        for piece in new:
            small = 0 < len(piece.body) <= LARGE_BYTES
            body, blob = (pack(piece.body), None) if small else (None, self._blobs[piece.content])
            rows.append((self._messages[piece.address], piece.address, self.message(piece.parent), body, blob))
        insert(connection, "messages (id, hash, parent, body, blob)", rows)
        rows = [
            (self._blocks[piece.address], piece.address, self.block(piece.parent), pack(piece.body))
            for piece in self._missing(connection, "token_blocks", self._blocks, blocks, named_blocks)
        ]
        insert(connection, "token_blocks (id, hash, parent, data)", rows)

    def _missing(
        self, connection: sqlite3.Connection, table: str, known: Remembered[bytes, int], brought: dict[bytes, Piece], named: set[bytes]
    ) -> list[Piece]:
        """Those that the database has not, with new ids; all others get the ids that they have."""
        unknown = [address for address in {*brought, *named} if address and address not in known]
        if not unknown:
            return []
        _find(connection, table, known, unknown)
        missing = [piece for address, piece in brought.items() if address not in known]
        for piece, row in zip(missing, self._new_ids(connection, table, len(missing)), strict=True):
            known[piece.address] = row
        return missing

    def _write_blobs(self, connection: sqlite3.Connection, brought: dict[bytes, bytes], named: set[bytes]) -> None:
        known = self._blobs
        unknown = [content for content in {*brought, *named} if content not in known]
        if not unknown:
            return
        _find(connection, "blobs", known, unknown)
        missing = [content for content in brought if content not in known]
        rows = [
            (row, content, pack(brought[content]))
            for row, content in zip(self._new_ids(connection, "blobs", len(missing)), missing, strict=True)
        ]
        insert(connection, "blobs (id, hash, data)", rows)
        for row, content, _ in rows:
            known[content] = row

    def _new_ids(self, connection: sqlite3.Connection, table: str, count: int) -> range:
        """Row ids never used in this process: the search index tells new messages from old ones by their ids."""
        if not count:
            return range(0)
        highest = self._highest.get(table)
        if highest is None:
            highest = int(connection.execute(f"SELECT coalesce(max(id), 0) FROM {table}").fetchone()[0])
        first = highest + 1
        self._highest[table] = highest + count
        return range(first, first + count)


def _find(connection: sqlite3.Connection, table: str, known: Remembered[bytes, int], addresses: Iterable[bytes]) -> None:
    for row, address in select(connection, f"SELECT id, hash FROM {table} WHERE hash", list(addresses)):
        known[cast(bytes, address)] = cast(int, row)

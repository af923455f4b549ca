"""Content stored once: messages and token ids as forests, large bodies as blobs. A batch is collected first, then written at once.

Runs on the writer thread. It remembers ids of what it has seen: a history that is resent is recognised by `fingerprint` and costs
neither JSON nor hashing nor a query.
"""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

from daemon.experience.packing import BLOCK_TOKENS, LARGE_BYTES, digest, pack, token_bytes
from daemon.experience.packing import to_json as encode
from daemon.experience.statements import Value, insert, select
from daemon.fingerprint import History, fingerprint
from daemon.records import JSON, Message

_REMEMBERED = 50_000
K = TypeVar("K")
V = TypeVar("V")


class Remembered(OrderedDict[K, V], Generic[K, V]):
    """The last 50,000, as `trim` leaves them: between two batches, so that a batch finds what it has put in."""

    def trim(self) -> None:
        while len(self) > _REMEMBERED:
            self.popitem(last=False)


@dataclass(slots=True)
class Node:
    """A message or a block of token ids; `row` 0: not looked for yet."""

    row: int
    address: bytes


@dataclass(slots=True)
class _New:
    """One that memory does not know, in the order of discovery: parents before their children."""

    node: Node
    parent: Node | None
    body: bytes | None  # None: a blob that stands already
    content: bytes  # the hash of the body alone


@dataclass(slots=True)
class _Pending:
    """What one batch brings."""

    messages: dict[bytes, _New] = field(default_factory=dict)  # by address
    blocks: dict[bytes, _New] = field(default_factory=dict)
    blobs: dict[bytes, bytes] = field(default_factory=dict)  # body by content hash


class Forest:
    """`add_…` for all of a batch, then `write`; row ids are known after that. `forget` after a rollback."""

    def __init__(self) -> None:
        self._messages: Remembered[tuple[bytes, int], Node] = Remembered()  # by the parent's address and the message's fingerprint
        self._ends: Remembered[int, Node] = Remembered()  # conversations, by the fingerprint of their history
        self._blocks: Remembered[bytes, Node] = Remembered()
        self._blobs: Remembered[bytes, int] = Remembered()  # by content hash
        self._values: Remembered[int, bytes] = Remembered()  # content hash by fingerprint
        self._pending = _Pending()
        self._highest: dict[str, int] = {}  # row id by table; nobody else adds rows

    def forget(self) -> None:
        for memory in (self._messages, self._ends, self._blocks, self._blobs, self._values):
            memory.clear()
        self._pending = _Pending()

    def trim(self) -> None:
        for memory in (self._messages, self._ends, self._blocks, self._blobs, self._values):
            memory.trim()

    def add_conversation(self, messages: Sequence[Message], past: History) -> Node | None:
        """The node of the last message; None for none. `past` is their history."""
        begun = past.known(self._ends)
        node = self._ends[past.upto[begun - 1]] if begun else None
        for message, mark in zip(messages[begun:], past.each[begun:], strict=True):
            node = self.add_message(message, node, mark)
        if node is not None:
            self._ends[past.upto[-1]] = node
        return node

    def add_message(self, message: Message, parent: Node | None, mark: int | None = None) -> Node:
        """`mark`: its fingerprint, where it is at hand."""
        above = parent.address if parent else b""
        seen = (above, fingerprint(message) if mark is None else mark)
        known = self._messages.get(seen)
        if known is not None:
            return known
        content, body = self._content(message, seen[1])
        address = digest(above, content)
        new = self._pending.messages.get(address)
        if new is None:
            new = self._pending.messages[address] = _New(Node(0, address), parent, body, content)
        self._messages[seen] = new.node
        return new.node

    def _content(self, message: Message, mark: int) -> tuple[bytes, bytes | None]:
        """Its hash, and its body unless it is a blob that stands already: the same text often comes below another parent."""
        content = self._values.get(mark)
        if content is not None and content in self._blobs:
            return content, None
        body = encode(message)
        content = digest(body)
        if len(body) > LARGE_BYTES:
            self._values[mark] = content
        return content, body

    def add_value(self, value: JSON) -> bytes | None:
        """The content hash of a value that is kept as a blob, for `blob_row`; None: it is small, and its owner keeps it."""
        if not isinstance(value, dict | list | str) or (isinstance(value, str) and len(value) * 4 <= LARGE_BYTES):
            return None
        body = encode(value)  # quicker than the fingerprint of what is as nested as a list of tools
        if len(body) <= LARGE_BYTES:
            return None
        seen = hash(body)
        content = self._values.get(seen)
        if content is not None and content in self._blobs:
            return content
        content = self._values[seen] = digest(body)
        self._pending.blobs[content] = body
        return content

    def blob_row(self, content: bytes) -> int:
        """The row of a blob, after `write`."""
        return self._blobs[content]

    def add_tokens(self, tokens: Sequence[int]) -> tuple[Node | None, int]:
        """The node of the last whole block, and how many ids lie in whole blocks."""
        whole = len(tokens) // BLOCK_TOKENS * BLOCK_TOKENS
        node: Node | None = None
        for start in range(0, whole, BLOCK_TOKENS):
            data = token_bytes(tokens[start : start + BLOCK_TOKENS])
            address = digest(node.address if node else b"", data)
            known = self._blocks.get(address)
            if known is None:
                known = Node(0, address)
                self._pending.blocks[address] = _New(known, node, data, b"")
                self._blocks[address] = known
            node = known
        return node, whole

    def write(self, connection: sqlite3.Connection) -> None:
        """Give every node its row: found in the database, or inserted."""
        pending, self._pending = self._pending, _Pending()
        messages = self._missing(connection, "messages", pending.messages)
        for new in messages:
            if new.body is not None and len(new.body) > LARGE_BYTES and new.content not in self._blobs:
                pending.blobs[new.content] = new.body
        self._write_blobs(connection, pending.blobs)
        rows: list[tuple[Value, ...]] = []
        for new in messages:
            small = new.body is not None and len(new.body) <= LARGE_BYTES
            body, blob = (pack(new.body or b""), None) if small else (None, self._blobs[new.content])
            rows.append((new.node.row, new.node.address, new.parent.row if new.parent else None, body, blob))
        insert(connection, "messages (id, hash, parent, body, blob)", rows)
        blocks = self._missing(connection, "token_blocks", pending.blocks)
        rows = [(new.node.row, new.node.address, new.parent.row if new.parent else None, pack(new.body or b"")) for new in blocks]
        insert(connection, "token_blocks (id, hash, parent, data)", rows)

    def _missing(self, connection: sqlite3.Connection, table: str, wanted: dict[bytes, _New]) -> list[_New]:
        """Those that the database has not, with new ids; the others get the ids that they have."""
        if not wanted:
            return []
        for row, address in select(connection, f"SELECT id, hash FROM {table} WHERE hash", list(wanted)):
            wanted[cast(bytes, address)].node.row = cast(int, row)
        missing = [new for new in wanted.values() if not new.node.row]
        for new, row_id in zip(missing, self._new_ids(connection, table, len(missing)), strict=True):
            new.node.row = row_id
        return missing

    def _write_blobs(self, connection: sqlite3.Connection, blobs: dict[bytes, bytes]) -> None:
        if not blobs:
            return
        for row, content in select(connection, "SELECT id, hash FROM blobs WHERE hash", list(blobs)):
            self._blobs[cast(bytes, content)] = cast(int, row)
            del blobs[cast(bytes, content)]
        ids = self._new_ids(connection, "blobs", len(blobs))
        rows = [(row, content, pack(body)) for row, (content, body) in zip(ids, blobs.items(), strict=True)]
        insert(connection, "blobs (id, hash, data)", rows)
        for row, content, _ in rows:
            self._blobs[content] = row

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

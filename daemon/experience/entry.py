"""A record on its way to the tables: what is stored of it, without row numbers, so that the journal can hold it as bytes."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

import orjson

from daemon.errors import DataError
from daemon.experience.packing import from_json, to_json
from daemon.records import JSON

_FORMAT = 1
_HEAD = struct.Struct("<BI")  # format, number of parts; their lengths follow


@dataclass(slots=True)
class Piece:
    """A message or a block of token ids that came with this record and that no earlier one had brought, as far as is remembered."""

    address: bytes  # a hash that includes the parent's
    parent: bytes  # the parent's address; empty: none
    content: bytes  # the hash of the body alone; of messages
    body: bytes  # empty: a blob that an earlier record has brought


@dataclass(slots=True)
class Entry:
    """One inference. Texts are valid Unicode; what another record may have brought already is named by its hash."""

    id: str
    scenario: str
    session: str
    created_at: float
    kind: str
    status: str
    finish_reason: str
    release: str
    lora: str  # empty: the base model
    model: str
    wire: str
    step: int  # place in `loading.STEPS`
    follows: str  # a receipt; empty: none
    title: str  # for its session, if that has none
    observed: str  # signals of the turn that it follows, with spaces between
    detail: bytes  # JSON of what is seldom asked for, without the large fields
    reply_key: bytes
    prompt: bytes  # addresses of messages; empty: none
    effective: bytes
    reply: bytes
    block: bytes  # the address of the last whole block of token ids
    trace: bytes  # as it is stored
    large: list[tuple[str, bytes]]  # request fields that are kept as blobs: name, hash
    blobs: list[tuple[bytes, bytes]]  # of these fields: hash, body
    messages: list[Piece]  # parents before their children
    blocks: list[Piece]

    def to_bytes(self) -> bytes:
        head: list[JSON] = [
            self.id, self.scenario, self.session, self.created_at, self.kind, self.status, self.finish_reason, self.release, self.lora,
            self.model, self.wire, self.step, self.follows, self.title, self.observed,
            len(self.large), len(self.blobs), len(self.messages), [name for name, _ in self.large],
        ]  # fmt: skip
        parts = [_json(head), self.detail, self.reply_key, self.prompt, self.effective, self.reply, self.block, self.trace]
        for _, content in self.large:
            parts.append(content)
        for blob in self.blobs:
            parts += blob
        for piece in self.messages:
            parts += (piece.address, piece.parent, piece.content, piece.body)
        for piece in self.blocks:
            parts += (piece.address, piece.parent, piece.body)
        lengths = struct.pack(f"<{len(parts)}I", *map(len, parts))
        return b"".join([_HEAD.pack(_FORMAT, len(parts)), lengths, *parts])

    @classmethod
    def from_bytes(cls, data: bytes) -> Entry:
        """Raises `DataError` for what `to_bytes` has not made."""
        try:
            return cls._read(data)
        except (struct.error, ValueError, StopIteration, IndexError, TypeError) as error:
            raise DataError("An entry of the journal cannot be read.", "Run `reef fsck`.") from error

    @classmethod
    def _read(cls, data: bytes) -> Entry:
        parts = _parts(data)
        head = cast("list[JSON]", from_json(next(parts)))
        large, blobs, messages = cast("list[int]", head[15:18])
        names = cast("list[str]", head[18])
        values: list[object] = [*head[:15], *itertools.islice(parts, 7)]
        values.append([(names[number], next(parts)) for number in range(large)])
        values.append([(next(parts), next(parts)) for _ in range(blobs)])
        values.append([Piece(next(parts), next(parts), next(parts), next(parts)) for _ in range(messages)])
        values.append([Piece(address, next(parts), b"", next(parts)) for address in parts])
        return cls(*values)  # type: ignore[arg-type]  # in the order of the fields, as `to_bytes` has it


def _parts(data: bytes) -> Iterator[bytes]:
    kind, count = _HEAD.unpack_from(data)
    if kind != _FORMAT:
        raise ValueError(kind)
    at = _HEAD.size + 4 * count
    for length in struct.unpack_from(f"<{count}I", data, _HEAD.size):
        if at + length > len(data):
            raise ValueError(length)
        yield data[at : at + length]
        at += length


def _json(value: list[JSON]) -> bytes:
    try:
        data: bytes = orjson.dumps(value)
    except TypeError:  # a field's name with half a character
        return to_json(value)
    return data

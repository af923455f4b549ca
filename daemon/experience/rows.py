"""Writing one record as rows. Runs on the writer thread, inside its transaction; remembers ids that it has seen."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache

from daemon.errors import Conflict, StorageError
from daemon.experience.keys import text_of
from daemon.experience.packing import BLOCK_TOKENS, LARGE_BYTES, digest, pack, pack_trace, to_json, token_bytes
from daemon.records import JSON, Inference, JSONObject, Message, Sampling, TurnKind

_REMEMBERED = 50_000
_TITLE_CHARACTERS = 120
_PLAIN_SAMPLING = asdict(Sampling())


class Rows:
    """Turns records into rows. `forget()` after a rollback: the ids it remembers may be gone."""

    def __init__(self) -> None:
        self._messages: OrderedDict[bytes, int] = OrderedDict()
        self._blocks: OrderedDict[bytes, int] = OrderedDict()
        self._words: dict[str, int] = {}
        self._scenarios: dict[str, int] = {}

    def forget(self) -> None:
        self._messages.clear()
        self._blocks.clear()
        self._words.clear()
        self._scenarios.clear()

    def scenario(self, connection: sqlite3.Connection, name: str, created_at: float) -> int:
        known = self._scenarios.get(name)
        if known is None:
            connection.execute("INSERT OR IGNORE INTO scenarios (name, created_at) VALUES (?, ?)", (name, created_at))
            known = self._scenarios[name] = _one(connection, "SELECT id FROM scenarios WHERE name = ?", name)
        return known

    def record(self, connection: sqlite3.Connection, scenario: int, record_id: str, kind: str, created_at: float) -> int:
        """The row in the stream; its sequence. Raises `Conflict` where the id is taken."""
        try:
            cursor = connection.execute(
                "INSERT INTO records (scenario, id, kind, created_at) VALUES (?, ?, ?, ?)", (scenario, clean(record_id), kind, created_at)
            )
        except sqlite3.IntegrityError as error:
            raise Conflict(f"The id {record_id} is taken by another record.", "Send the report without `agent_record_id`.") from error
        return _rowid(cursor)

    def inference(self, connection: sqlite3.Connection, inference: Inference, reply_key: bytes) -> int:
        """Store both sides of a request; returns its sequence."""
        scenario = self.scenario(connection, inference.scenario, inference.created_at)
        sequence = self.record(connection, scenario, inference.id, "inference", inference.created_at)
        session = self._session(connection, scenario, inference, sequence)
        prompt = self._conversation(connection, inference.messages)
        effective = None if inference.effective_messages is None else self._conversation(connection, inference.effective_messages)
        reply = self._message(connection, inference.reply, prompt)
        block, trace = self._trace(connection, inference)
        connection.execute(
            "INSERT INTO inferences VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                sequence,
                session,
                inference.kind.value,
                inference.status.value,
                clean(inference.finish_reason),
                self._word(connection, inference.release_id),
                None if inference.lora_id is None else self._word(connection, inference.lora_id),
                self._word(connection, inference.model),
                self._word(connection, inference.wire),
                None if prompt is None else prompt[0],
                None if effective is None else effective[0],
                reply[0],
                reply_key,
                pack(to_json(self._detail(connection, inference))),
                block,
                trace,
            ),
        )
        return sequence

    def blob(self, connection: sqlite3.Connection, data: bytes) -> int:
        """The id of this content, stored once."""
        address = digest(data)
        row = connection.execute("SELECT id FROM blobs WHERE hash = ?", (address,)).fetchone()
        if row is not None:
            return int(row[0])
        return _rowid(connection.execute("INSERT INTO blobs (hash, data) VALUES (?, ?)", (address, pack(data))))

    def _session(self, connection: sqlite3.Connection, scenario: int, inference: Inference, sequence: int) -> int:
        turn = inference.kind is TurnKind.TURN
        row = connection.execute(
            "INSERT INTO sessions (scenario, key, created_at, updated_at, last_sequence, title, turns, asides)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (scenario, key) DO UPDATE SET updated_at = excluded.updated_at, last_sequence = excluded.last_sequence,"
            " turns = turns + excluded.turns, asides = asides + excluded.asides,"
            " title = CASE WHEN title = '' THEN excluded.title ELSE title END RETURNING id",
            (
                scenario,
                clean(inference.session),
                inference.created_at,
                inference.created_at,
                sequence,
                _title(inference.messages) if turn else "",
                int(turn),
                int(not turn),
            ),
        ).fetchone()
        return int(row[0])

    def _conversation(self, connection: sqlite3.Connection, messages: Sequence[Message]) -> tuple[int, bytes] | None:
        node: tuple[int, bytes] | None = None
        for message in messages:
            node = self._message(connection, message, node)
        return node

    def _message(self, connection: sqlite3.Connection, message: Message, parent: tuple[int, bytes] | None) -> tuple[int, bytes]:
        body = to_json(message)
        address = digest(parent[1] if parent else b"", digest(body))
        known = self._messages.get(address)
        if known is None:
            row = connection.execute("SELECT id FROM messages WHERE hash = ?", (address,)).fetchone()
            known = int(row[0]) if row is not None else self._add_message(connection, address, body, parent)
            _remember(self._messages, address, known)
        return known, address

    def _add_message(self, connection: sqlite3.Connection, address: bytes, body: bytes, parent: tuple[int, bytes] | None) -> int:
        large = len(body) > LARGE_BYTES
        cursor = connection.execute(
            "INSERT INTO messages (hash, parent, body, blob) VALUES (?, ?, ?, ?)",
            (
                address,
                parent[0] if parent else None,
                None if large else pack(body),
                self.blob(connection, body) if large else None,
            ),
        )
        return _rowid(cursor)

    def _word(self, connection: sqlite3.Connection, text: str) -> int:
        text = clean(text)
        known = self._words.get(text)
        if known is None:
            connection.execute("INSERT OR IGNORE INTO words (text) VALUES (?)", (text,))
            known = self._words[text] = _one(connection, "SELECT id FROM words WHERE text = ?", text)
        return known

    def _trace(self, connection: sqlite3.Connection, inference: Inference) -> tuple[int | None, bytes | None]:
        tokens = inference.tokens
        if tokens is None:
            return None, None
        block: int | None = None
        address = b""
        whole = len(tokens.prompt) // BLOCK_TOKENS * BLOCK_TOKENS
        for start in range(0, whole, BLOCK_TOKENS):
            data = token_bytes(tokens.prompt[start : start + BLOCK_TOKENS])
            address = digest(address, data)
            block = self._blocks.get(address) or self._find_or_add_block(connection, address, data, block)
            _remember(self._blocks, address, block)
        return block, pack_trace(tokens.prompt[whole:], tokens.completion, tokens.logprobs)

    def _find_or_add_block(self, connection: sqlite3.Connection, address: bytes, data: bytes, parent: int | None) -> int:
        row = connection.execute("SELECT id FROM token_blocks WHERE hash = ?", (address,)).fetchone()
        if row is not None:
            return int(row[0])
        return _rowid(connection.execute("INSERT INTO token_blocks (hash, parent, data) VALUES (?, ?, ?)", (address, parent, pack(data))))

    def _detail(self, connection: sqlite3.Connection, inference: Inference) -> JSONObject:
        """What is seldom asked for, without defaults. Large request fields (tools) are named by their blob."""
        small: JSONObject = {}
        large: JSONObject = {}
        for name, value in inference.request.items():
            data = to_json(value)
            if len(data) > LARGE_BYTES:
                large[name] = self.blob(connection, data)
            else:
                small[name] = value
        usage = inference.usage
        detail: JSONObject = {
            "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens],
            "ms": [inference.first_token_ms, inference.total_ms],
            "sampling": _settings(inference.sampling),
            "request": small,
            "large": large,
            "tags": _tags(inference.tags),
            "error": inference.error,
            "note": inference.note,
            "cache_miss": inference.cache_miss,
            "redactions": inference.redactions,
        }
        return {name: value for name, value in detail.items() if value or name in ("usage", "ms")}


def _remember(known: OrderedDict[bytes, int], address: bytes, row: int) -> None:
    known[address] = row
    if len(known) > _REMEMBERED:
        known.popitem(last=False)


def clean(text: str) -> str:
    """SQLite stores valid Unicode only; a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode()


def _title(messages: Sequence[Message]) -> str:
    for message in messages:
        if message.get("role") == "user" and (text := " ".join(text_of(message.get("content")).split())):
            return clean(text[:_TITLE_CHARACTERS])
    return ""


@lru_cache(maxsize=256)
def _settings(sampling: Sampling) -> JSONObject:
    """What differs from the defaults."""
    return {name: _plain(value) for name, value in asdict(sampling).items() if value != _PLAIN_SAMPLING[name]}


def _tags(tags: Mapping[str, str]) -> JSONObject:
    return dict(tags.items())


def _plain(value: object) -> JSON:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None


def _one(connection: sqlite3.Connection, query: str, value: str) -> int:
    return int(connection.execute(query, (value,)).fetchone()[0])


def _rowid(cursor: sqlite3.Cursor) -> int:
    if cursor.lastrowid is None:
        raise StorageError("SQLite gave no row id.", "Run `reef fsck`.")
    return cursor.lastrowid

"""Writing records as rows, a batch at a time. Runs on the writer thread, inside its transaction; remembers ids that it has seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

from daemon.errors import Conflict
from daemon.experience.forest import Forest, Node
from daemon.experience.loading import STEPS, Loader
from daemon.experience.packing import pack, pack_trace, to_json
from daemon.experience.sessions.keys import conversation_key, reply_key, text_of
from daemon.experience.sessions.signals import observe
from daemon.experience.sessions.tallies import Session, Sessions
from daemon.experience.sessions.user_words import own_words
from daemon.experience.statements import Value, insert, select
from daemon.fingerprint import History, history
from daemon.records import JSON, Inference, JSONObject, Message, Sampling, Step, TurnKind

_TITLE_CHARACTERS = 120
_PLAIN_SAMPLING = asdict(Sampling())
_RECORDS = "records (sequence, scenario, id, kind, created_at)"
_INFERENCES = (
    "inferences (sequence, session, kind, status, finish_reason, release, lora, model, wire, prompt, effective, reply, reply_key,"
    " detail, token_block, trace, parent, step)"
)
_SIGNALS = "signals (sequence, names)"
_MORE_SIGNALS = "ON CONFLICT (sequence) DO UPDATE SET names = names || ' ' || excluded.names"
_PLACES = {step: place or None for place, step in enumerate(STEPS)}
_SEQUENCES = 20_000


@dataclass(slots=True)
class _Content:
    """What of a record is stored once for all."""

    conversations: tuple[Node | None, Node | None, Node]  # what the client sent, what the engine got, the reply
    fields: dict[str, bytes | None]  # of the request: a content hash where one is kept as a blob
    block: Node | None
    trace: bytes | None


class Rows:
    """Turns records into rows. `forget()` after a rollback: the ids it remembers may be gone."""

    def __init__(self) -> None:
        self._forest = Forest()
        self._sessions = Sessions()
        self._words: dict[str, int] = {}
        self._scenarios: dict[str, int] = {}
        self._last: int | None = None  # sequence that was given
        self._sequences: dict[str, int] = {}  # of the latest receipts
        self._early: dict[str, list[int]] = {}  # receipt of a first choice that is still to come → further ones that ended before it

    def forget(self) -> None:
        self._forest.forget()
        self._sessions.forget()
        self._words.clear()
        self._scenarios.clear()
        self._last = None
        self._sequences.clear()
        self._early.clear()

    def scenario(self, connection: sqlite3.Connection, name: str, created_at: float) -> int:
        known = self._scenarios.get(name)
        if known is None:
            connection.execute("INSERT OR IGNORE INTO scenarios (name, created_at) VALUES (?, ?)", (name, created_at))
            known = self._scenarios[name] = _one(connection, "SELECT id FROM scenarios WHERE name = ?", name)
        return known

    def record(self, connection: sqlite3.Connection, scenario: int, record_id: str, kind: str, created_at: float) -> int:
        """The row in the stream; its sequence. Raises `Conflict` where the id is taken."""
        sequence = self._take_sequences(connection, 1)
        try:
            insert(connection, _RECORDS, [(sequence, scenario, clean(record_id), kind, created_at)])
        except sqlite3.IntegrityError as error:
            raise Conflict(f"The id {record_id} is taken by another record.", "Send the report without `agent_record_id`.") from error
        return sequence

    def taken(self, connection: sqlite3.Connection, ids: Sequence[str]) -> bool:
        """Whether any of the ids stands already, or two are the same."""
        wanted = [clean(one) for one in ids]
        return len(set(wanted)) < len(wanted) or next(select(connection, "SELECT sequence FROM records WHERE id", wanted), None) is not None

    def inference(self, connection: sqlite3.Connection, inference: Inference, past: History | None = None) -> int:
        """Store both sides of a request; its sequence. `past`: its messages' history, where it is at hand."""
        return self.inferences(connection, [inference], [past or history(inference.messages)])[0]

    def inferences(self, connection: sqlite3.Connection, batch: Sequence[Inference], pasts: Sequence[History] = ()) -> list[int]:
        """Store them in order, table by table; their sequences. The ids are free: see `taken`.

        Args:
            pasts: the histories of their messages, where they are at hand.
        """
        self._forest.trim()
        first = self._take_sequences(connection, len(batch))
        pasts = pasts or [history(inference.messages) for inference in batch]
        collected = [self._collect(inference, past) for inference, past in zip(batch, pasts, strict=True)]
        self._forest.write(connection)
        records: list[Sequence[Value]] = []
        rows: list[Sequence[Value]] = []
        signals: list[Sequence[Value]] = []
        adopted: list[Sequence[Value]] = []
        scenarios = [self.scenario(connection, inference.scenario, inference.created_at) for inference in batch]
        keys = [clean(inference.session) for inference in batch]
        self._sessions.find(connection, zip(scenarios, keys, strict=True))
        sequences = range(first, first + len(batch))
        for sequence, inference, content, past, scenario, key in zip(sequences, batch, collected, pasts, scenarios, keys, strict=True):
            records.append((sequence, scenario, clean(inference.id), "inference", inference.created_at))
            release = self._word(connection, inference.release_id)
            session = self._session(scenario, key, inference, sequence, release)
            self._sequences[inference.id] = sequence
            parent = self._sequence_of(connection, inference.lineage.follows, scenario)
            if parent is not None and (observed := observed_by(connection, inference, parent)):
                signals.append((parent, " ".join(observed)))
            if parent is None and inference.lineage.step is Step.CHOICE:
                self._early.setdefault(inference.lineage.follows, []).append(sequence)
            adopted += [(sequence, early) for early in self._early.pop(inference.id, ())]
            rows.append(
                (
                    sequence,
                    session.id,
                    inference.kind.value,
                    inference.status.value,
                    clean(inference.finish_reason),
                    release,
                    None if inference.lora_id is None else self._word(connection, inference.lora_id),
                    self._word(connection, inference.model),
                    self._word(connection, inference.wire),
                    *(None if node is None else node.row for node in content.conversations),
                    reply_key(conversation_key(inference.messages, past), inference.reply),
                    pack(to_json(self._detail(inference, content.fields))),
                    None if content.block is None else content.block.row,
                    content.trace,
                    parent,
                    _PLACES[inference.lineage.step],
                )
            )
        insert(connection, _RECORDS, records)
        self._sessions.write(connection)
        insert(connection, _INFERENCES, rows)
        if adopted:
            connection.executemany("UPDATE inferences SET parent = ? WHERE sequence = ?", adopted)
        for row in signals:  # seldom any; two of a batch may speak of the same turn
            insert(connection, _SIGNALS, [row], _MORE_SIGNALS)
        if len(self._sequences) > _SEQUENCES:
            self._sequences.clear()
        if len(self._early) > _SEQUENCES:
            self._early.clear()
        return list(sequences)

    def _take_sequences(self, connection: sqlite3.Connection, count: int) -> int:
        """The first of so many. The stream only grows: a sequence that was given once is never given again."""
        if self._last is None:
            row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
            self._last = 0 if row is None else int(row[0])
        self._last += count
        return self._last - count + 1

    def _collect(self, inference: Inference, past: History) -> _Content:
        """What of a record is stored once for all: known after this, written by `Forest.write`."""
        forest = self._forest
        prompt = forest.add_conversation(inference.messages, past)
        changed = inference.effective_messages
        effective = None if changed is None else forest.add_conversation(changed, history(changed))
        reply = forest.add_message(inference.reply, prompt)
        fields = {name: forest.add_value(value) for name, value in inference.request.items()}
        tokens = inference.tokens
        if tokens is None:
            return _Content((prompt, effective, reply), fields, None, None)
        block, whole = forest.add_tokens(tokens.prompt)
        return _Content((prompt, effective, reply), fields, block, pack_trace(tokens.prompt[whole:], tokens.completion, tokens.logprobs))

    def _session(self, scenario: int, key: str, inference: Inference, sequence: int, release: int) -> Session:
        turn = inference.kind is TurnKind.TURN
        counted = turn and inference.lineage.step not in (Step.RETRY, Step.CHOICE)
        session = self._sessions.change(scenario, key, inference.created_at)
        if turn and not session.title:
            session.title = title_of(inference.messages)
        session.count(sequence, inference.created_at, release, turn=counted, aside=not turn)
        return session

    def _sequence_of(self, connection: sqlite3.Connection, receipt: str, scenario: int) -> int | None:
        if not receipt:
            return None
        known = self._sequences.get(receipt)
        if known is None:
            row = connection.execute("SELECT sequence FROM records WHERE id = ? AND scenario = ?", (receipt, scenario)).fetchone()
            known = None if row is None else int(row[0])
        return known

    def _word(self, connection: sqlite3.Connection, text: str) -> int:
        known = self._words.get(text)
        if known is None:
            plain = clean(text)
            connection.execute("INSERT OR IGNORE INTO words (text) VALUES (?)", (plain,))
            known = self._words[text] = _one(connection, "SELECT id FROM words WHERE text = ?", plain)
        return known

    def _detail(self, inference: Inference, fields: Mapping[str, bytes | None]) -> JSONObject:
        """What is seldom asked for, without defaults. Large request fields (tools) are named by their blob."""
        usage = inference.usage
        detail: JSONObject = {
            "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens],
            "ms": [inference.first_token_ms, inference.total_ms],
            "sampling": _settings(inference.sampling),
            "request": {name: inference.request[name] for name, content in fields.items() if content is None},
            "large": {name: self._forest.blob_row(content) for name, content in fields.items() if content is not None},
            "tags": _tags(inference.tags),
            "error": inference.error,
            "note": inference.note,
            "cache_miss": inference.cache_miss,
            "redactions": inference.redactions,
            "masked": [list(span) for span in inference.tokens.masked] if inference.tokens is not None else [],
        }
        return {name: value for name, value in detail.items() if value or name in ("usage", "ms")}


def observed_by(connection: sqlite3.Connection, inference: Inference, parent: int) -> tuple[str, ...]:
    """What a request says of the turn that it follows, whose sequence is `parent`."""
    lineage = inference.lineage
    if lineage.step not in (Step.CONTINUE, Step.BRANCH) or not lineage.added:
        return ()
    reply = None if lineage.echoed else Loader(connection).reply(parent)
    return observe(inference.messages, lineage.added, reply)


def clean(text: str) -> str:
    """SQLite stores valid Unicode only; a lone surrogate becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def title_of(messages: Sequence[Message]) -> str:
    """The first user's message, on one line."""
    """What the user asked last: what stands before it in a first request are an agent's examples, files and reminders."""
    for message in reversed(messages):
        if message.get("role") == "user" and (text := own_words(message) or text_of(message.get("content")).strip()):
            return clean(" ".join(_opening(text).split())[:_TITLE_CHARACTERS])
    return ""


def _opening(text: str) -> str:
    """The first paragraph, and the one that it announces."""
    first, _, rest = text.partition("\n\n")
    second, _, _ = rest.partition("\n\n")
    return f"{first} {second}" if first.rstrip().endswith(":") else first


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

"""Writing entries as rows, a batch at a time. Runs on the writer thread, inside its transaction; remembers ids that it has seen."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import cast

from daemon.errors import Conflict
from daemon.experience.entry import Entry
from daemon.experience.forest import Forest
from daemon.experience.loading import STEPS, Loader
from daemon.experience.packing import pack, to_json
from daemon.experience.preparing import Preparer
from daemon.experience.sessions.tallies import Session, Sessions
from daemon.experience.statements import Value, clean, insert, select
from daemon.fingerprint import History, history
from daemon.records import Inference, Message, Step, TurnKind

_RECORDS = "records (sequence, scenario, id, kind, created_at)"
_INFERENCES = (
    "inferences (sequence, session, kind, status, finish_reason, release, lora, model, wire, prompt, effective, reply, reply_key,"
    " detail, token_block, trace, parent, step)"
)
_SIGNALS = "signals (sequence, names)"
_MORE_SIGNALS = "ON CONFLICT (sequence) DO UPDATE SET names = names || ' ' || excluded.names"
_RETRY, _CHOICE = STEPS.index(Step.RETRY), STEPS.index(Step.CHOICE)
_SEQUENCES = 20_000


class Rows:
    """Turns records into entries, and entries into rows. `forget()` after a rollback: the ids it remembers may be gone."""

    def __init__(self) -> None:
        self._preparer = Preparer()
        self._forest = Forest()
        self._sessions = Sessions()
        self._words: dict[str, int] = {}
        self._scenarios: dict[str, int] = {}
        self._last: int | None = None  # sequence that was given
        self._sequences: dict[str, int] = {}  # of the latest receipts
        self._early: dict[str, list[int]] = {}  # receipt of a first choice that is still to come → further ones that ended before it

    def forget(self) -> None:
        self._preparer.forget()
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
        sequence = self.take_sequences(connection, 1)
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
        first = self.take_sequences(connection, len(batch))
        numbered = list(enumerate(self.entries(connection, batch, pasts or [history(inference.messages) for inference in batch]), first))
        self.file(connection, numbered)
        return [sequence for sequence, _ in numbered]

    def entries(
        self,
        connection: sqlite3.Connection,
        batch: Sequence[Inference],
        pasts: Sequence[History],
        replies: dict[str, Message] | None = None,
    ) -> list[Entry]:
        """What is to be stored of them, in order. `replies`: those of entries that are not filed yet, by receipt."""

        def reply_to(inference: Inference) -> Message | None:
            receipt = inference.lineage.follows
            return (replies or {}).get(receipt) or _stored_reply(connection, receipt, inference.scenario)

        self._preparer.trim()
        return [self._preparer.entry(inference, past, reply_to) for inference, past in zip(batch, pasts, strict=True)]

    def file(self, connection: sqlite3.Connection, numbered: Sequence[tuple[int, Entry]]) -> None:
        """Write entries as rows, each under its sequence."""
        self._forest.trim()
        entries = [entry for _, entry in numbered]
        self._forest.write(connection, entries)
        records: list[Sequence[Value]] = []
        rows: list[Sequence[Value]] = []
        signals: list[Sequence[Value]] = []
        adopted: list[Sequence[Value]] = []
        scenarios = [self.scenario(connection, entry.scenario, entry.created_at) for entry in entries]
        self._sessions.find(connection, zip(scenarios, [entry.session for entry in entries], strict=True))
        message, word = self._forest.message, self._word
        for (sequence, entry), scenario in zip(numbered, scenarios, strict=True):
            records.append((sequence, scenario, entry.id, "inference", entry.created_at))
            release = word(connection, entry.release)
            session = self._session(scenario, entry, sequence, release)
            self._sequences[entry.id] = sequence
            parent = self._sequence_of(connection, entry.follows, scenario)
            if parent is not None and entry.observed:
                signals.append((parent, entry.observed))
            if parent is None and entry.step == _CHOICE:
                self._early.setdefault(entry.follows, []).append(sequence)
            adopted += [(sequence, early) for early in self._early.pop(entry.id, ())]
            rows.append(
                (
                    sequence,
                    session.id,
                    entry.kind,
                    entry.status,
                    entry.finish_reason,
                    release,
                    word(connection, entry.lora) if entry.lora else None,
                    word(connection, entry.model),
                    word(connection, entry.wire),
                    message(entry.prompt),
                    message(entry.effective),
                    message(entry.reply),
                    entry.reply_key,
                    pack(self._detail(entry)),
                    self._forest.block(entry.block),
                    entry.trace or None,
                    parent,
                    entry.step or None,
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

    def take_sequences(self, connection: sqlite3.Connection, count: int, above: int = 0) -> int:
        """The first of so many. The stream only grows: a sequence that was given once is never given again.

        Args:
            above: the last that an entry has which is not filed yet.
        """
        if self._last is None:
            self._last = max(last_sequence(connection), above)
        self._last += count
        return self._last - count + 1

    def _session(self, scenario: int, entry: Entry, sequence: int, release: int) -> Session:
        turn = entry.kind == TurnKind.TURN.value
        session = self._sessions.change(scenario, entry.session, entry.created_at)
        if turn and not session.title:
            session.title = entry.title
        session.count(sequence, entry.created_at, release, turn=turn and entry.step not in (_RETRY, _CHOICE), aside=not turn)
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
            connection.execute("INSERT OR IGNORE INTO words (text) VALUES (?)", (text,))
            known = self._words[text] = _one(connection, "SELECT id FROM words WHERE text = ?", text)
        return known

    def _detail(self, entry: Entry) -> bytes:
        """With large request fields (tools) named by their blob."""
        if not entry.large:
            return entry.detail
        large = to_json({name: self._forest.blob(content) for name, content in entry.large})
        return b"".join([entry.detail[:-1], b',"large":', large, b"}"])


def last_sequence(connection: sqlite3.Connection) -> int:
    """The highest that was ever in the stream."""
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'records'").fetchone()
    return 0 if row is None else int(row[0])


def _stored_reply(connection: sqlite3.Connection, receipt: str, scenario: str) -> Message | None:
    query = "SELECT r.sequence FROM records r JOIN scenarios c ON c.id = r.scenario WHERE r.id = ? AND c.name = ?"
    row = connection.execute(query, (receipt, scenario)).fetchone()
    return None if row is None else Loader(connection).reply(cast(int, row[0]))


def _one(connection: sqlite3.Connection, query: str, value: str) -> int:
    return int(connection.execute(query, (value,)).fetchone()[0])

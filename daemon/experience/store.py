"""The experience store: one writer, durable before it answers, and the memory that groups requests into sessions.

A future of `append` resolves when the record is on disk, in the journal or in the tables (group commit, synced): only then may
a receipt leave the daemon. Readers of this process see it from then on. Async callers use `asyncio.wrap_future`.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from daemon.errors import BadRequest, Conflict, NotFound
from daemon.experience.admission import Admission
from daemon.experience.database import mark, open_writer, say_nothing, storage_errors
from daemon.experience.jobs import Told
from daemon.experience.journal import Journal, journal_path
from daemon.experience.loading import Loader
from daemon.experience.packing import object_from_json, pack, to_json, unpack
from daemon.experience.reader import ImportedRecord
from daemon.experience.replaying import replay
from daemon.experience.rows import Rows
from daemon.experience.search.indexer import Indexer
from daemon.experience.sessions.grouping import SessionMatch
from daemon.experience.sessions.memory import SessionIndex
from daemon.experience.sessions.placing import Placer, Recall
from daemon.experience.sessions.tallies import count_report
from daemon.experience.statements import clean
from daemon.experience.unfiled import writes, written
from daemon.experience.writer import Writer
from daemon.observing.measures import CommitMeasures
from daemon.records import Inference, JSONObject, Lineage, Message, Report, Step, TurnKind
from daemon.redaction.redact import RedactionRule, redact_report

T = TypeVar("T")


class Store:
    """Open one a database; a second process reads through `Reader`."""

    def __init__(
        self, path: Path, connection: sqlite3.Connection, redaction: RedactionRule, say: Callable[[str], None] = say_nothing
    ) -> None:
        self.path = path
        self._redaction = redaction
        self._connection = connection
        self._rows = Rows()
        self._journal = Journal(journal_path(path))
        self.unreadable_bytes = replay(connection, self._rows, self._journal, say)
        """Of the journal, at this start: the records in them are lost."""
        self._placer = Placer(SessionIndex(complete=_is_empty(connection)), Recall(path, redaction))
        self._indexer = Indexer(path)
        self._writer = Writer(connection, Admission(self._rows, redaction, self._indexer, self._journal))
        writes(path, self._writer.settle)
        self._indexer.start()

    @classmethod
    def open(cls, path: Path, redaction: RedactionRule | None = None, say: Callable[[str], None] = say_nothing) -> Store:
        """Create or migrate the database and start the writer.

        Args:
            redaction: where keys, tokens and the like are replaced before anything is written; None: everywhere.
            say: is told, in a few words, what goes on while it takes long.

        Raises:
            StorageError: it cannot be written, is damaged, or lies on a network file system.
            DataError: a newer Reef wrote it.
        """
        connection = open_writer(path, say)
        try:
            return cls(path, connection, redaction or RedactionRule(), say)
        except BaseException:
            connection.close()
            raise

    def close(self) -> None:
        """Write what waits, note the clean end, and let go of the file. Closing twice does nothing more."""
        if not self._writer.close():
            return
        written(self.path)
        self._journal.close()
        self._indexer.close()
        self._placer.close()
        with storage_errors(), contextlib.closing(self._connection):
            mark(self._connection, "closed")

    @property
    def redaction(self) -> RedactionRule:
        """Where secrets are replaced before anything is written, and by what."""
        return self._redaction

    @property
    def index_lag(self) -> int:
        """How many records searches do not find in the index yet."""
        return self._indexer.lag

    def catch_up(self, timeout_s: float) -> bool:
        """Let the full-text index take up all that is stored now; False: it has not by then. A search works all the same."""
        return self._indexer.catch_up(timeout_s)

    def forget_words(self, sequences: Sequence[int], *, wipe: bool) -> None:
        """Take records out of the full-text index; before their rows are removed. See `Indexer.forget`; blocks."""
        self._indexer.forget(sequences, wipe=wipe)

    def complete_words(self) -> None:
        """Index again what lost its words though its records stayed. See `Indexer.complete`; blocks."""
        self._indexer.complete()

    @property
    def commits(self) -> CommitMeasures:
        """How long the commits take, and how many writes share one."""
        return self._writer.measures

    def resolve_session(
        self, scenario: str, explicit: str | None, messages: Sequence[Message], request: JSONObject | None = None
    ) -> SessionMatch:
        """Which session a request belongs to; `explicit` is what `grouping.identify` found, `request` the other fields (tools).

        Answers from memory; only a session older than the memory costs one indexed query.
        """
        return self._placer.place(scenario, explicit, messages, request or {}, time.time())

    def append(self, inference: Inference) -> Future[int]:
        """Store a record; its place in the stream. The same id and content again: the same place; other content: `Conflict`."""
        self._placer.add(inference)
        return self._writer.add(inference)

    def append_new(self, inference: Inference, told: Told[int]) -> None:
        """The same for a record whose id was made for it, by `new_id`; `told` hears of it on the writer's thread."""
        self._placer.add(inference)
        self._writer.add_new(inference, told)

    def append_report(self, report: Report) -> Future[int]:
        """Store feedback; its place in the stream.

        A retry (same id, same content) gives the same place again. The future fails with `Conflict` where the id
        holds other content, and with `BadRequest` for a receipt that this scenario does not know.
        """

        def write(connection: sqlite3.Connection) -> int:
            return self._write_report(connection, report)[0]

        return self._writer.submit(write)

    def append_imported(self, items: Sequence[Inference | Report | ImportedRecord]) -> Future[list[bool]]:
        """Store what an import brings, in order and in one transaction, all or none; for each item whether it is new.

        Idempotent: what is there already stays as it is. The future fails with `Conflict` where an id holds other content, and
        with `BadRequest` for feedback on a receipt that its scenario does not know.
        """

        def write(connection: sqlite3.Connection) -> list[bool]:
            written = []
            for item in items:
                if isinstance(item, Inference):
                    written.append(self._write_imported(connection, item))
                elif isinstance(item, Report):
                    written.append(self._write_report(connection, item)[1])
                else:
                    written.append(self._write_as_it_came(connection, item))
            return written

        return self._writer.submit(write)

    def create_scenario(self, name: str) -> Future[bool]:
        """True: it is new, or back from the archive; False: it stands already."""

        def write(connection: sqlite3.Connection) -> bool:
            if connection.execute("SELECT 1 FROM scenarios WHERE name = ? AND archived_at IS NULL", (name,)).fetchone():
                return False
            connection.execute(
                "INSERT INTO scenarios (name, created_at) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET archived_at = NULL",
                (name, time.time()),
            )
            return True

        return self._writer.submit(write)

    def archive_scenario(self, name: str) -> Future[None]:
        """Its experience stays. The future fails with `NotFound`."""

        def write(connection: sqlite3.Connection) -> None:
            if not connection.execute("UPDATE scenarios SET archived_at = ? WHERE name = ?", (time.time(), name)).rowcount:
                raise NotFound(f"There is no scenario {name}.", "`reef status` lists them.")

        return self._writer.submit(write)

    def execute(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run `function` on the writing connection, inside a transaction of its own; for the other tables' writers."""
        return self._writer.submit(function)

    def erase(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """The same for what removes rows that records point to (messages, blobs, sessions): their remembered ids are dropped after it."""

        def write(connection: sqlite3.Connection) -> T:
            result = function(connection)
            self._rows.forget()
            self._placer.forget()
            return result

        return self._writer.submit(write)

    def alone(self, function: Callable[[sqlite3.Connection], T]) -> Future[T]:
        """Run `function` in a transaction of its own, with foreign keys off and freed pages overwritten.

        For what removes many rows: SQLite would look for each one through all that could refer to it. The caller sees to it
        that nothing does.
        """

        def write(connection: sqlite3.Connection) -> T:
            connection.execute("PRAGMA foreign_keys = OFF")
            connection.execute("PRAGMA secure_delete = ON")
            try:
                connection.execute("BEGIN IMMEDIATE")
                result = function(connection)
                connection.execute("COMMIT")
                return result
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                connection.execute("PRAGMA foreign_keys = ON")

        return self._writer.alone(write)

    def forget_placed(self) -> None:
        """Drop what is remembered of sessions: some are gone."""
        self._placer.forget()

    def scrub(self, rewritten_bytes: int) -> Future[bool]:
        """Empty the write-ahead log, and rewrite a database of at most this size; False: a reader keeps the log busy, try again."""

        def write(connection: sqlite3.Connection) -> bool:
            pages, page_bytes = (int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in ("page_count", "page_size"))
            if pages * page_bytes <= rewritten_bytes:
                connection.execute("VACUUM")
            connection.execute("PRAGMA busy_timeout = 200")
            try:
                busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            finally:
                connection.execute("PRAGMA busy_timeout = 5000")
            return not busy

        return self._writer.alone(write)

    def _without_secrets(self, report: Report) -> Report:
        if not self._redaction.applies(report.scenario):
            return report
        return redact_report(report, self._redaction.of(report.scenario))

    def _write_report(self, connection: sqlite3.Connection, report: Report) -> tuple[int, bool]:
        """Its place in the stream, and whether it is new."""
        stored = self._without_secrets(report)
        scenario = self._rows.scenario(connection, report.scenario, report.created_at)
        references = tuple(dict.fromkeys(report.references))
        row = connection.execute(
            "SELECT sequence, kind FROM records WHERE id = ? AND scenario = ?", (clean(report.id), scenario)
        ).fetchone()
        if row is not None:
            return _same_report(connection, int(row[0]), row[1], replace(stored, references=references)), False
        targets = [_target(connection, scenario, receipt, report.scenario) for receipt in references]
        sequence = self._rows.record(connection, scenario, report.id, "report", report.created_at)
        connection.execute(
            "INSERT INTO reports VALUES (?, ?, ?, ?)",
            (sequence, stored.score, json.dumps(stored.feedback), json.dumps(stored.metadata)),
        )
        connection.executemany(
            "INSERT INTO report_references VALUES (?, ?, ?)", [(sequence, position, target) for position, target in enumerate(targets)]
        )
        count_report(connection, targets)
        return sequence, True

    def _write_imported(self, connection: sqlite3.Connection, inference: Inference) -> bool:
        """Whether it is new. When it was stored, where it was grouped and how it is labelled may differ from what stands."""
        record = self._redaction.redacted(inference)
        where = "WHERE r.id = ? AND c.name = ?"
        stored = Loader(connection).inferences(where, (clean(inference.id), inference.scenario))
        if stored:
            known = replace(stored[0], created_at=0.0, session="", kind=TurnKind.TURN, lineage=Lineage(), sequence=0, tokens=None)
            if known == replace(record, created_at=0.0, session="", kind=TurnKind.TURN, lineage=Lineage(), sequence=0, tokens=None):
                return False
        elif not _is_taken(connection, inference.id, inference.scenario):
            lineage = self._placer.lineage(inference) if inference.lineage.step is Step.UNKNOWN else inference.lineage
            self._rows.inference(connection, replace(record, lineage=lineage))
            self._placer.add(replace(inference, lineage=lineage))
            return True
        raise Conflict(f"The id {inference.id} is taken by another record.", "Send it under another id.")

    def _write_as_it_came(self, connection: sqlite3.Connection, item: ImportedRecord) -> bool:
        """Whether it is new."""
        scenario = self._rows.scenario(connection, item.scenario, item.created_at)
        payload = self._redaction.of(item.scenario).object(item.payload)[0] if self._redaction.applies(item.scenario) else item.payload
        data = to_json(payload)
        row = connection.execute(
            "SELECT i.request_type, i.payload FROM records r LEFT JOIN imports i ON i.sequence = r.sequence"
            " WHERE r.id = ? AND r.scenario = ?",
            (clean(item.id), scenario),
        ).fetchone()
        if row is not None:
            if row[0] == item.request_type and object_from_json(unpack(row[1])) == object_from_json(data):
                return False
            raise Conflict(f"The id {item.id} is taken by another record.", "Send it under another `agent_record_id`.")
        sequence = self._rows.record(connection, scenario, item.id, "import", item.created_at)
        connection.execute("INSERT INTO imports VALUES (?, ?, ?)", (sequence, clean(item.request_type), pack(data)))
        return True


def _is_taken(connection: sqlite3.Connection, record: str, scenario: str) -> bool:
    query = "SELECT 1 FROM records r JOIN scenarios c ON c.id = r.scenario WHERE r.id = ? AND c.name = ?"
    return connection.execute(query, (clean(record), scenario)).fetchone() is not None


def _is_empty(connection: sqlite3.Connection) -> bool:
    with storage_errors():
        return connection.execute("SELECT 1 FROM inferences LIMIT 1").fetchone() is None


def _target(connection: sqlite3.Connection, scenario: int, receipt: str, name: str) -> int:
    row = connection.execute("SELECT sequence FROM records WHERE id = ? AND scenario = ?", (clean(receipt), scenario)).fetchone()
    if row is None:
        raise BadRequest(f"The scenario {name} holds no record {receipt}.", "`reef session ID` shows receipts.", param="references")
    return int(row[0])


def _same_report(connection: sqlite3.Connection, sequence: int, kind: str, report: Report) -> int:
    stored = Loader(connection).reports("WHERE r.sequence = ?", (sequence,)) if kind == "report" else []
    if stored and replace(stored[0], sequence=0, created_at=0.0) == replace(report, sequence=0, created_at=0.0):
        return sequence
    raise Conflict(f"The id {report.id} holds other content.", "Send the new report under another `agent_record_id`.")

"""Runs as the database knows them: their state, what they said on the way, the records that they took, what was consumed.

Writes answer with futures that resolve once they are on disk; reads block. Both are safe from any thread.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Collection, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeVar

from daemon.errors import Conflict, NotFound
from daemon.experience.database import storage_errors
from daemon.experience.packing import object_from_json
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import JSONObject, new_id

T = TypeVar("T")

MAX_ATTEMPTS = 3
"""A record that this many ended runs have taken, without a release that keeps it, triggers no further one."""


class RunStatus(StrEnum):
    RUNNING = "running"
    DONE = "done"  # it decided: see `verdict`
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Run:
    id: str
    scenario: str
    recipe: str
    status: RunStatus
    phase: str  # "select", "propose", "train", "evaluate", "publish", …
    started_at: float
    ended_at: float | None = None
    verdict: str = ""  # "promoted", "rejected", "held", "nothing"
    sentence: str = ""
    release_id: str | None = None
    trigger: str = ""  # who or what started it
    config: JSONObject = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class RunEvent:
    seq: int  # the cursor within its run, from 1
    at: float
    event: JSONObject


_COLUMNS = "id, scenario, recipe, status, phase, started_at, ended_at, verdict, sentence, release_id, trigger, config, error"


class RunStore:
    """Reads through `reader`, writes through `store`."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self.written = 0
        """Writes since the start that a run shows by, each counted once it is on disk."""

    def create(
        self, scenario: str, recipe: str, *, trigger: str = "", config: JSONObject | None = None, run_id: str | None = None
    ) -> Future[Run]:
        """A new run, in phase "starting"."""
        run = Run(
            run_id or new_id("run"), scenario, recipe, RunStatus.RUNNING, "starting", time.time(), trigger=trigger, config=config or {}
        )

        def write(connection: sqlite3.Connection) -> Run:
            values = (
                run.id,
                scenario,
                recipe,
                run.status.value,
                run.phase,
                run.started_at,
                None,
                "",
                "",
                None,
                trigger,
                json.dumps(run.config),
                "",
            )
            connection.execute(f"INSERT INTO runs ({_COLUMNS}) VALUES ({','.join('?' * len(values))})", values)
            return run

        return self._counted(self._store.execute(write))

    def _counted(self, write: Future[T]) -> Future[T]:
        def count(_: Future[T]) -> None:
            self.written += 1

        write.add_done_callback(count)
        return write

    def counts(self) -> dict[str, int]:
        """How many runs there are of each status, of all scenarios; zeros too."""
        with storage_errors():
            rows = self._reader.connection().execute("SELECT status, count(*) FROM runs GROUP BY status").fetchall()
        return {status.value: 0 for status in RunStatus} | {str(status): int(count) for status, count in rows}

    def event(self, run_id: str, event: JSONObject) -> Future[int]:
        """Append an event; its place in the run. An event with a text `phase` moves the run to that phase."""

        def write(connection: sqlite3.Connection) -> int:
            if isinstance(phase := event.get("phase"), str):
                connection.execute("UPDATE runs SET phase = ? WHERE id = ? AND status = 'running'", (phase, run_id))
            row = connection.execute("SELECT coalesce(max(seq), 0) + 1 FROM run_events WHERE run = ?", (run_id,)).fetchone()
            connection.execute("INSERT INTO run_events VALUES (?, ?, ?, ?)", (run_id, row[0], time.time(), json.dumps(event)))
            return int(row[0])

        return self._counted(self._store.execute(write))

    def add_records(self, run_id: str, records: Collection[str]) -> Future[None]:
        """Note which records a run took; adding one twice does nothing more."""

        def write(connection: sqlite3.Connection) -> None:
            connection.executemany("INSERT OR IGNORE INTO run_records VALUES (?, ?)", [(run_id, record) for record in records])

        return self._store.execute(write)

    def finish(
        self, run_id: str, status: RunStatus, *, verdict: str = "", sentence: str = "", release_id: str | None = None, error: str = ""
    ) -> Future[None]:
        """End a run, once. The future fails with `NotFound`, or with `Conflict` where it has ended before."""

        def write(connection: sqlite3.Connection) -> None:
            row = connection.execute("SELECT status FROM runs WHERE id = ?", (run_id,)).fetchone()
            if row is None:
                raise _unknown(run_id)
            if row[0] != RunStatus.RUNNING:
                raise Conflict(f"The run {run_id} has already ended: {row[0]}.", f"See `reef runs {run_id}`.")
            connection.execute(
                "UPDATE runs SET status = ?, ended_at = ?, verdict = ?, sentence = ?, release_id = ?, error = ? WHERE id = ?",
                (status.value, time.time(), verdict, sentence, release_id, error, run_id),
            )

        return self._counted(self._store.execute(write))

    def fail_unfinished(self, reason: str) -> Future[list[str]]:
        """At the daemon's start: what still says "running" died with it. Returns their ids."""

        def write(connection: sqlite3.Connection) -> list[str]:
            rows = connection.execute(
                "UPDATE runs SET status = 'failed', ended_at = ?, sentence = ?, error = ? WHERE status = 'running' RETURNING id",
                (time.time(), reason, reason),
            ).fetchall()
            return [str(row[0]) for row in rows]

        return self._store.execute(write)

    def get(self, run_id: str) -> Run:
        """Raises `NotFound`."""
        with storage_errors():
            row = self._reader.connection().execute(f"SELECT {_COLUMNS} FROM runs WHERE id = ?", (run_id,)).fetchone()
        if row is None:
            raise _unknown(run_id)
        return _run(row)

    def list(self, scenario: str | None = None, limit: int = 50, before: float | None = None) -> list[Run]:
        """Newest first; `before` is the `started_at` of the last one seen."""
        with storage_errors():
            rows = self._reader.connection().execute(
                f"SELECT {_COLUMNS} FROM runs WHERE (? IS NULL OR scenario = ?) AND (? IS NULL OR started_at < ?)"
                " ORDER BY started_at DESC, id DESC LIMIT ?",
                (scenario, scenario, before, before, limit),
            )
            return [_run(row) for row in rows.fetchall()]

    def events(self, run_id: str, after: int = 0, limit: int = 500) -> Sequence[RunEvent]:
        with storage_errors():
            rows = self._reader.connection().execute(
                "SELECT seq, at, event FROM run_events WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?", (run_id, after, limit)
            )
            return [RunEvent(seq, at, object_from_json(event.encode())) for seq, at, event in rows.fetchall()]

    def records(self, run_id: str) -> frozenset[str]:
        """The records that a run took."""
        with storage_errors():
            rows = self._reader.connection().execute("SELECT record FROM run_records WHERE run = ?", (run_id,))
            return frozenset(str(row[0]) for row in rows)

    def consumed(self, scenario: str) -> frozenset[str]:
        """Receipts that releases in force were made from."""
        with storage_errors():
            rows = self._reader.connection().execute("SELECT record FROM consumption WHERE scenario = ?", (scenario,))
            return frozenset(str(row[0]) for row in rows)

    def attempts(self, record: str) -> int:
        """How many ended runs have taken this record; cancelled ones do not count."""
        with storage_errors():
            row = self._reader.connection().execute(
                "SELECT count(*) FROM run_records t JOIN runs r ON r.id = t.run WHERE t.record = ? AND r.status IN ('done', 'failed')",
                (record,),
            )
            return int(row.fetchone()[0])


def _run(row: tuple[str, str, str, str, str, float, float | None, str, str, str | None, str, str, str]) -> Run:
    run_id, scenario, recipe, status, phase, started_at, ended_at, verdict, sentence, release_id, trigger, config, error = row
    settings = object_from_json(config.encode())
    return Run(
        run_id, scenario, recipe, RunStatus(status), phase, started_at, ended_at, verdict, sentence, release_id, trigger, settings, error
    )


def _unknown(run_id: str) -> NotFound:
    return NotFound(f"There is no run {run_id}.", "`reef runs` lists them.")

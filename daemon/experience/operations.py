"""The operation log, and SQLite's view of the release chain: which LoRAs have served, which records are consumed.

The git manifests are the truth; `rebuild` repairs this view from them at start.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from daemon.experience.database import storage_errors
from daemon.experience.packing import object_from_json
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Operation:
    """One row of the log: who changed what, with the heads before and after."""

    id: int
    at: float
    scenario: str
    operation: str  # "training", "rollback", "promote", "undo", "forget", "settings", …
    before: str | None
    after: str | None
    who: str
    detail: JSONObject = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReleaseFacts:
    """What SQLite wants to know of one published release; read from its manifest."""

    release_id: str
    operation: str
    lora_id: str | None
    consumed: tuple[str, ...]
    at: float
    restores: str | None = None  # the earlier release whose content this is
    who: str = ""
    commit_id: str = ""
    parent_commit_id: str = ""  # empty: the first release


@dataclass(frozen=True, slots=True)
class Served:
    """One entry of the history of LoRAs: from `at` on, `lora_id` (None: the base model) was the head's."""

    lora_id: str | None
    release_id: str
    at: float


@dataclass(frozen=True, slots=True)
class _State:
    """The records that a release stands on: its own, and those of the state that it builds on."""

    release: ReleaseFacts
    base: _State | None


class OperationLog:
    """Reads through `reader`, writes through `store`."""

    def __init__(self, store: Store, reader: Reader) -> None:
        self._store = store
        self._reader = reader
        self.written: Counter[str] = Counter()
        """Rows by scenario since the start, each counted once it is on disk."""

    def append(
        self,
        scenario: str,
        operation: str,
        before: str | None,
        after: str | None,
        who: str,
        detail: JSONObject | None = None,
        at: float | None = None,
    ) -> Future[int]:
        """Write one row; its id. Rows are never changed."""
        values = (time.time() if at is None else at, scenario, operation, before, after, who, json.dumps(detail or {}))

        def write(connection: sqlite3.Connection) -> int:
            return _append(connection, values)

        return self._counted(scenario, write)

    def published(self, scenario: str, release: ReleaseFacts, before: str | None, detail: JSONObject | None = None) -> Future[int]:
        """All that a publication means to SQLite, in one transaction: the row, the LoRA that serves now, the consumed records.

        A rollback or undo releases the records of what it takes back; the chain tells which, so they go through `rebuild`.
        """

        def write(connection: sqlite3.Connection) -> int:
            _serve(connection, scenario, release)
            _consume(connection, scenario, release)
            # What a rollback frees is known once `rebuild` has read the chain.
            follows = release.restores is None and _viewed(connection, scenario) == release.parent_commit_id
            _note_view(connection, scenario, release.commit_id if follows else "")
            return _append(
                connection, (release.at, scenario, release.operation, before, release.release_id, release.who, json.dumps(detail or {}))
            )

        return self._counted(scenario, write)

    def _counted(self, scenario: str, write: Callable[[sqlite3.Connection], int]) -> Future[int]:
        written = self._store.execute(write)
        written.add_done_callback(lambda _: self.written.update((scenario,)))
        return written

    def list(self, scenario: str | None = None, limit: int = 50, before: int | None = None) -> list[Operation]:
        """Newest first; `before` is the id of the last one seen."""
        with storage_errors():
            rows = self._reader.connection().execute(
                "SELECT id, at, scenario, operation, before, after, who, detail FROM operations"
                " WHERE (? IS NULL OR scenario = ?) AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
                (scenario, scenario, before, before, limit),
            )
            return [
                Operation(number, at, name, operation, before_head, after, who, object_from_json(detail.encode()))
                for number, at, name, operation, before_head, after, who, detail in rows.fetchall()
            ]

    def lora_history(self, scenario: str) -> Sequence[Served]:
        """Oldest first, one entry a release."""
        return read_lora_history(self._reader, scenario)

    def agrees_with(self, scenario: str, head: str) -> bool:
        """Whether SQLite's view is that of the chain that ends in this release, so that nobody needs to read it."""
        with storage_errors():
            row = self._reader.connection().execute("SELECT value FROM facts WHERE name = ?", (_view(scenario),)).fetchone()
        return row is not None and row[0] == head

    def doubt(self, scenario: str) -> Future[None]:
        """Let the next start read the chain."""
        return self._store.execute(lambda connection: _note_view(connection, scenario, ""))

    def complete(self, scenario: str, head: str, pinned: Collection[str], dismissed: Mapping[str, str]) -> Future[int]:
        """Add the rows that a crash kept out of the log: pins that are set or gone, candidates that were given up (id → by whom).

        Returns how many there were; doing it twice changes nothing more.
        """

        def write(connection: sqlite3.Connection) -> int:
            said = "SELECT json_extract(detail, '$.release_id'), operation FROM operations WHERE scenario = ? AND operation IN (?, ?)"
            pins = dict(connection.execute(f"{said} ORDER BY id", (scenario, "pin", "unpin")))
            given_up = {row[0] for row in connection.execute(said, (scenario, "dismiss", "dismiss"))}
            rows = [("pin", one, "daemon") for one in sorted(pinned) if pins.get(one) != "pin"]
            rows += [("unpin", one, "daemon") for one, last in sorted(pins.items()) if last == "pin" and one not in pinned]
            rows += [("dismiss", one, who) for one, who in sorted(dismissed.items()) if one not in given_up]
            for operation, release_id, who in rows:
                detail = json.dumps({"release_id": release_id, "repaired": True})
                _append(connection, (time.time(), scenario, operation, head, head, who, detail))
            return len(rows)

        return self._store.execute(write)

    def rebuild(self, scenario: str, releases: Sequence[ReleaseFacts]) -> Future[int]:
        """Make SQLite agree with the chain (oldest first); doing it twice changes nothing more.

        Consumption is that of the last release: a rollback or undo to an earlier one releases what came after it.
        Returns how many releases the log did not know; they are added as they stand in the manifests.
        """

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("DELETE FROM consumption WHERE scenario = ?", (scenario,))
            connection.execute("DELETE FROM lora_history WHERE scenario = ?", (scenario,))
            moves = "SELECT after FROM operations WHERE scenario = ? AND before IS NOT after"  # a pin or a setting leaves the head
            known = {row[0] for row in connection.execute(moves, (scenario,))}
            missing = 0
            previous: str | None = None
            for release in releases:
                _serve(connection, scenario, release)
                if release.release_id not in known:
                    missing += 1
                    detail = json.dumps({"repaired": True})
                    _append(connection, (release.at, scenario, release.operation, previous, release.release_id, release.who, detail))
                previous = release.release_id
            for release in _in_force(releases):
                _consume(connection, scenario, release)
            _note_view(connection, scenario, releases[-1].commit_id if releases else "")
            return missing

        return self._store.execute(write)


def read_lora_history(reader: Reader, scenario: str) -> Sequence[Served]:
    with storage_errors():
        rows = reader.connection().execute("SELECT lora_id, release_id, at FROM lora_history WHERE scenario = ? ORDER BY id", (scenario,))
        return [Served(*row) for row in rows.fetchall()]


def _in_force(releases: Sequence[ReleaseFacts]) -> Sequence[ReleaseFacts]:
    """The releases whose consumption the last one stands on, oldest first."""
    states: dict[str, _State] = {}
    current: _State | None = None
    for release in releases:
        restored = states.get(release.restores) if release.restores is not None else None
        current = _State(release, current if restored is None else restored)
        states[release.release_id] = current
    found = []
    while current is not None:
        if current.release.consumed:
            found.append(current.release)
        current = current.base
    return found[::-1]


def _view(scenario: str) -> str:
    return f"releases of {scenario}"


def _viewed(connection: sqlite3.Connection, scenario: str) -> str:
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (_view(scenario),)).fetchone()
    return "" if row is None else str(row[0])


def _note_view(connection: sqlite3.Connection, scenario: str, commit_id: str) -> None:
    """Which release's chain log, LoRA history and consumption speak of; empty: not known, so that the next start reads it."""
    connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_view(scenario), commit_id))


def _append(connection: sqlite3.Connection, values: tuple[float, str, str, str | None, str | None, str, str]) -> int:
    row = connection.execute(
        "INSERT INTO operations (at, scenario, operation, before, after, who, detail) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id", values
    ).fetchone()
    return int(row[0])


def _serve(connection: sqlite3.Connection, scenario: str, release: ReleaseFacts) -> None:
    connection.execute(
        "INSERT OR IGNORE INTO lora_history (scenario, lora_id, release_id, at) VALUES (?, ?, ?, ?)",
        (scenario, release.lora_id, release.release_id, release.at),
    )


def _consume(connection: sqlite3.Connection, scenario: str, release: ReleaseFacts) -> None:
    connection.executemany(
        "INSERT OR IGNORE INTO consumption VALUES (?, ?, ?, ?)",
        [(scenario, record, release.release_id, release.at) for record in release.consumed],
    )

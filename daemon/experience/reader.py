"""Reading the experience: read-only connections, one a thread, that never hold up the writer."""

from __future__ import annotations

import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from daemon.errors import NotFound
from daemon.experience.database import open_reader, storage_errors
from daemon.experience.loading import Loader
from daemon.experience.packing import object_from_json, unpack
from daemon.experience.sessions.listing import SessionList, SessionSummary
from daemon.experience.sessions.turns import SessionTurn, linked, turns_of
from daemon.experience.statements import clean
from daemon.experience.unfiled import settle
from daemon.records import Inference, JSONObject, Report


@dataclass(frozen=True, slots=True)
class SessionView:
    summary: SessionSummary
    turns: tuple[SessionTurn, ...]  # in order; asides among them


@dataclass(frozen=True, slots=True)
class Counts:
    sessions: int = 0
    inferences: int = 0
    reports: int = 0
    imported: int = 0
    last_sequence: int = 0


@dataclass(frozen=True, slots=True)
class ImportedRecord:
    """What was stored as it came: an import, or a training instruction."""

    id: str
    scenario: str
    created_at: float
    request_type: str
    payload: JSONObject
    sequence: int


class Reader:
    """All methods may be called from any thread; they block on the disk, so a daemon calls them in threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[sqlite3.Connection] = []
        self._lists: list[SessionList] = []

    def close(self) -> None:
        with self._lock:
            for connection in self._connections:
                connection.close()
            self._connections.clear()
            for sessions in self._lists:
                sessions.close()
            self._lists.clear()
        self._local = threading.local()

    def connection(self) -> sqlite3.Connection:
        """This thread's read-only connection, for queries of other modules of this package. All that has a receipt is in the tables."""
        settle(self.path)
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = open_reader(self.path)
            self._local.connection = connection
            self._local.loader = Loader(connection)
            sessions = self._local.sessions = SessionList(connection, self.path)
            with self._lock:
                self._connections.append(connection)
                self._lists.append(sessions)
        return connection

    def loader(self) -> Loader:
        self.connection()
        loader: Loader = self._local.loader
        return loader

    def inference(self, receipt: str) -> Inference:
        """Raises `NotFound` for a receipt that this database does not hold."""
        with storage_errors():
            found = self.loader().inferences("WHERE r.id = ?", (clean(receipt),))
        if not found:
            raise NotFound(f"There is no record {receipt[:80]}.", "`reef sessions` lists what is stored.")
        return found[0]

    def report(self, report_id: str, scenario: str | None = None) -> Report:
        """Report ids are chosen by clients and may repeat between scenarios; without `scenario` the oldest is meant."""
        where, values = ("WHERE r.id = ?", (report_id,)) if scenario is None else ("WHERE r.id = ? AND c.name = ?", (report_id, scenario))
        with storage_errors():
            found = self.loader().reports(f"{where} ORDER BY r.sequence LIMIT 1", values)
        if not found:
            raise NotFound(f"There is no report {report_id}.", "`reef sessions` lists what is stored.")
        return found[0]

    def items(
        self, scenario: str, after_sequence: int = 0, limit: int = 100, kind: Literal["inference", "report"] | None = None
    ) -> list[Inference | Report]:
        """The stream of a scenario in order, from after `after_sequence`; at most `limit` items."""
        with storage_errors():
            rows = self.connection().execute(
                "SELECT r.sequence, r.kind FROM records r JOIN scenarios c ON c.id = r.scenario WHERE c.name = ? AND r.sequence > ?"
                " AND (r.kind = ? OR (? IS NULL AND r.kind <> 'import')) ORDER BY r.sequence LIMIT ?",
                (scenario, after_sequence, kind, kind, limit),
            )
            loader = self.loader()
            items: list[Inference | Report] = []
            for sequence, found in rows.fetchall():
                if found == "inference":
                    items.extend(loader.inferences("WHERE r.sequence = ?", (sequence,)))
                else:
                    items.extend(loader.reports("WHERE r.sequence = ?", (sequence,)))
            return items

    def imported(self, scenario: str, after_sequence: int = 0, limit: int = 100, request_type: str | None = None) -> list[ImportedRecord]:
        """Records that were stored as they came, in order."""
        condition = "c.name = ? AND r.sequence > ? AND (? IS NULL OR i.request_type = ?) ORDER BY r.sequence LIMIT ?"
        return self._imported(condition, (scenario, after_sequence, request_type, request_type, limit))

    def record(self, scenario: str, record_id: str) -> Inference | Report | ImportedRecord:
        """Whatever has this id in the scenario. Raises `NotFound`."""
        with storage_errors():
            row = (
                self.connection()
                .execute(
                    "SELECT r.sequence, r.kind FROM records r JOIN scenarios c ON c.id = r.scenario WHERE r.id = ? AND c.name = ?",
                    (clean(record_id), scenario),
                )
                .fetchone()
            )
            if row is None:
                raise NotFound(f"There is no record {record_id[:80]} in scenario {scenario}.", "`reef sessions` lists what is stored.")
            sequence, kind = row
            if kind == "inference":
                return self.loader().inferences("WHERE r.sequence = ?", (sequence,))[0]
            if kind == "report":
                return self.loader().reports("WHERE r.sequence = ?", (sequence,))[0]
            return self._imported("r.sequence = ?", (sequence,))[0]

    def _imported(self, condition: str, values: tuple[str | int | None, ...]) -> list[ImportedRecord]:
        with storage_errors():
            rows = self.connection().execute(
                "SELECT r.id, c.name, r.created_at, i.request_type, i.payload, r.sequence FROM records r"
                f" JOIN imports i ON i.sequence = r.sequence JOIN scenarios c ON c.id = r.scenario WHERE {condition}",
                values,
            )
            return [
                ImportedRecord(record, name, created_at, kind, object_from_json(unpack(payload)), sequence)
                for record, name, created_at, kind, payload, sequence in rows.fetchall()
            ]

    def sessions(self, scenario: str | None = None, limit: int = 50, before: int | None = None, q: str = "") -> list[SessionSummary]:
        """Newest first; with `q`, a search's words, those that hold them. `before` is the `cursor` of the last one seen."""
        with storage_errors():
            sessions = self._session_list()
            return sessions.search(q, scenario, limit, before) if q.strip() else sessions.newest(scenario, limit, before)

    def _session_list(self) -> SessionList:
        self.connection()
        sessions: SessionList = self._local.sessions
        return sessions

    def session(self, session: str, scenario: str | None = None) -> SessionView:
        """One session with its turns. Raises `NotFound`."""
        with storage_errors():
            found = self._session_list().one(clean(session), scenario)
            if found is None:
                where = f" in scenario {scenario}" if scenario else ""
                raise NotFound(f"There is no session {session}{where}.", "`reef sessions` lists them; -s NAME takes another scenario's.")
            number, summary = found
            inferences = self.loader().inferences("WHERE i.session = ? ORDER BY i.sequence", (number,))
            reports = self.reports_by_target("i.session = ?", (number,))
            placed = linked(inferences, self.observed("i.session = ?", (number,)))
        return SessionView(summary, turns_of(placed, reports))

    def observed(self, where: str, values: tuple[str | int, ...]) -> dict[int, tuple[str, ...]]:
        """What the next turns said of the inferences that `where` chooses, by sequence."""
        query = f"SELECT g.sequence, g.names FROM inferences i JOIN signals g ON g.sequence = i.sequence WHERE {where}"
        return {sequence: tuple(names.split()) for sequence, names in self.connection().execute(query, values).fetchall()}

    def reports_for(self, receipt: str) -> list[Report]:
        with storage_errors():
            return self.loader().reports(
                "WHERE r.sequence IN (SELECT f.report FROM report_references f JOIN records t ON t.sequence = f.target WHERE t.id = ?)"
                " ORDER BY r.sequence",
                (receipt,),
            )

    def reports_by_target(self, where: str, values: tuple[str | int, ...]) -> dict[int, tuple[Report, ...]]:
        """Reports by the sequence of the inference that they speak of; `where` chooses the inferences (`i`, records `t`)."""
        pairs = self.connection().execute(
            "SELECT f.target, f.report FROM inferences i JOIN records t ON t.sequence = i.sequence"
            f" JOIN report_references f ON f.target = i.sequence WHERE {where} ORDER BY f.report",
            values,
        )
        grouped: dict[int, tuple[Report, ...]] = {}
        loaded: dict[int, Report] = {}
        for target, report in pairs.fetchall():
            if report not in loaded:
                loaded[report] = self.loader().reports("WHERE r.sequence = ?", (report,))[0]
            grouped[target] = (*grouped.get(target, ()), loaded[report])
        return grouped

    def last_receipt(self, scenario: str) -> str | None:
        """The newest turn's receipt; asides are passed over."""
        with storage_errors():
            row = self.connection().execute(
                "SELECT r.id FROM records r JOIN scenarios c ON c.id = r.scenario JOIN inferences i ON i.sequence = r.sequence"
                " WHERE c.name = ? AND r.kind = 'inference' AND i.kind = 'turn' ORDER BY r.sequence DESC LIMIT 1",
                (scenario,),
            )
            found = row.fetchone()
        return None if found is None else str(found[0])

    def counts(self, scenario: str) -> Counts:
        with storage_errors():
            connection = self.connection()
            kinds = {
                kind: (count, last)
                for kind, count, last in connection.execute(
                    "SELECT r.kind, count(*), max(r.sequence) FROM records r JOIN scenarios c ON c.id = r.scenario"
                    " WHERE c.name = ? GROUP BY r.kind",
                    (scenario,),
                )
            }
            sessions = connection.execute(
                "SELECT count(*) FROM sessions s JOIN scenarios c ON c.id = s.scenario WHERE c.name = ?", (scenario,)
            ).fetchone()[0]
        empty = (0, 0)
        return Counts(
            sessions=sessions,
            inferences=kinds.get("inference", empty)[0],
            reports=kinds.get("report", empty)[0],
            imported=kinds.get("import", empty)[0],
            last_sequence=max((last for _, last in kinds.values()), default=0),
        )

    def scenarios(self, *, archived: bool = False) -> list[str]:
        """Names, oldest first."""
        with storage_errors():
            rows = self.connection().execute("SELECT name FROM scenarios WHERE ? OR archived_at IS NULL ORDER BY id", (archived,))
            return [str(name) for (name,) in rows.fetchall()]

"""Erasing a session or a record: its rows, the texts that nothing else holds, its token ids, the reports on it, its places in the index.

What other sessions hold too (a system text, a common first message) stays. Freed pages are overwritten and the write-ahead log is
emptied, so that the bytes are gone from the files as well.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

from daemon.errors import NotFound
from daemon.experience.database import storage_errors
from daemon.experience.packing import object_from_json, unpack
from daemon.experience.preparing import title_of
from daemon.experience.reader import Reader
from daemon.experience.removal.garbage import Garbage, blobs_of, chunks, find_garbage
from daemon.experience.removal.sweeping import begin_erasing, end_erasing, sweep
from daemon.experience.replaying import drop_unfiled
from daemon.experience.sessions.tallies import COUNTED, recount
from daemon.experience.statements import clean, select
from daemon.experience.store import Store
from daemon.failpoints import failpoint
from daemon.records import JSON

SHORTEST_TEXT = 24
"""A shorter text ("yes", "run the tests") says nothing of its session and is not looked for elsewhere."""
REWRITTEN_BYTES = 32 << 20
"""A database up to this size is rewritten after something was removed, so that its file shrinks; those who write wait for that, up to
about a second. A larger one keeps its freed pages, overwritten, and uses them again."""
_STEP = 500
_TELLING = ("note", "task", "answer", "candidate", "selected", "failed")  # events of runs that may quote
_TRIES = 3
_SCRUBS, _SCRUB_PAUSE_S = 20, 0.25


@dataclass(frozen=True, slots=True)
class Doomed:
    """What would be erased."""

    scenario: str
    session: str  # the session, or the one that the record belongs to; "" for an import
    receipts: tuple[str, ...]  # inferences and imports, oldest first
    reports: tuple[str, ...]
    runs: tuple[str, ...]  # that have read one of them
    texts: tuple[str, ...]  # long ones, that stand nowhere else in the experience
    repeated_in: tuple[str, ...] = ()  # later receipts whose conversation still holds the record's reply
    sequences: tuple[int, ...] = ()
    report_sequences: tuple[int, ...] = ()
    garbage: Garbage = field(default_factory=Garbage)


def find(reader: Reader, scenario: str, *, session: str | None = None, record: str | None = None) -> Doomed:
    """What belongs to a session, or to one record. Blocks; reads the whole database.

    Raises:
        NotFound: there is no such session or record.
    """
    with storage_errors():
        connection = reader.connection()
        if session is not None:
            sequences, name = _of_session(connection, scenario, session), session
        else:
            sequences, name = _of_record(connection, scenario, record or "")
        return _doomed(connection, scenario, name, sequences, whole=session is not None)


def erase(store: Store, doomed: Doomed) -> bool:
    """Erase it. Blocks until it is gone from the disk; other writes wait for a moment only, or while the database is rewritten.

    Returns False where a reader kept the write-ahead log busy: what was erased may stay in it until it is next emptied.

    Raises:
        StorageError: the disk fails; what was not erased yet stays whole.
    """
    drop_unfiled(store.path, doomed.scenario, doomed.session)
    begin_erasing(store)
    store.forget_words((*doomed.sequences, *doomed.report_sequences), wipe=True)
    failpoint("forget.words-gone")
    for step in chunks(doomed.report_sequences, _STEP):
        store.alone(lambda connection, step=step: remove_reports(connection, step)).result()  # type: ignore[misc]
    for step in chunks(doomed.sequences, _STEP):
        store.alone(lambda connection, step=step: remove_records(connection, step)).result()  # type: ignore[misc]
        failpoint("forget.records-removed")
    store.alone(lambda connection: _silence_runs(connection, doomed.runs)).result()
    return finish(store)


def resume(store: Store) -> bool:
    """What an erasing that was cut off left over is put right: records that stand still are found again. See `erase`."""
    store.complete_words()
    return finish(store)


def finish(store: Store) -> bool:
    """The rest of an erasing, once its records are gone: texts, token ids, the bytes in the files. See `erase`."""
    for _ in range(_TRIES):  # again: what came in between may have belonged to the same conversation
        if not sweep(store):
            break
    end_erasing(store)
    store.forget_placed()
    for _ in range(_SCRUBS):
        if store.scrub(REWRITTEN_BYTES).result():
            return True
        time.sleep(_SCRUB_PAUSE_S)
    return False


def remove_reports(connection: sqlite3.Connection, reports: Sequence[int]) -> None:
    """Reports by sequence, with what refers to them."""
    query = "SELECT i.session FROM report_references f JOIN inferences i ON i.sequence = f.target WHERE f.report"
    sessions = {int(cast(int, row[0])) for row in select(connection, query, list(reports))}
    rows = [(report,) for report in reports]
    connection.executemany("DELETE FROM report_references WHERE report = ?", rows)
    connection.executemany("DELETE FROM reports WHERE sequence = ?", rows)
    connection.executemany("DELETE FROM records WHERE sequence = ?", rows)
    recount(connection, sessions)


def remove_records(connection: sqlite3.Connection, sequences: Sequence[int]) -> None:
    """Inferences and imports by sequence; a session without any goes too. Foreign keys are off."""
    sessions = {int(cast(int, row[0])) for row in select(connection, "SELECT session FROM inferences WHERE sequence", list(sequences))}
    rows = [(sequence,) for sequence in sequences]
    gone = _list(sequences)
    for session in sessions:
        connection.execute(
            "UPDATE inferences SET parent = NULL WHERE session = ? AND parent IN (SELECT value FROM json_each(?))", (session, gone)
        )
    for table, column in (
        ("report_references", "target"),
        ("signals", "sequence"),
        ("inferences", "sequence"),
        ("imports", "sequence"),
        ("records", "sequence"),
    ):
        connection.executemany(f"DELETE FROM {table} WHERE {column} = ?", rows)
    for session in sessions:
        _update_session(connection, session)


def _update_session(connection: sqlite3.Connection, session: int) -> None:
    left = connection.execute(
        f"SELECT count(*) FILTER (WHERE {COUNTED}), count(*) FILTER (WHERE kind <> 'turn'), max(sequence), min(sequence)"
        " FROM inferences WHERE session = ?",
        (session,),
    ).fetchone()
    turns, asides, last, first = cast("tuple[int, int, int | None, int | None]", left)
    if last is None:
        connection.execute("DELETE FROM sessions WHERE id = ?", (session,))
        return
    # The title is the first user's message; that of the first record that is left takes its place.
    title = title_of(_conversation(connection, first))
    connection.execute(
        "UPDATE sessions SET turns = ?, asides = ?, last_sequence = ?, title = ? WHERE id = ?", (turns, asides, last, title, session)
    )
    recount(connection, [session])


def _silence_runs(connection: sqlite3.Connection, runs: Iterable[str]) -> None:
    """What runs told of what they read and tried; how they went stays."""
    kinds = ",".join(f"'{kind}'" for kind in _TELLING)
    query = f"DELETE FROM run_events WHERE run = ? AND json_extract(event, '$.type') IN ({kinds})"
    connection.executemany(query, [(run,) for run in runs])


def _of_session(connection: sqlite3.Connection, scenario: str, session: str) -> list[int]:
    rows = connection.execute(
        "SELECT i.sequence FROM inferences i JOIN sessions s ON s.id = i.session JOIN scenarios c ON c.id = s.scenario"
        " WHERE c.name = ? AND s.key = ? ORDER BY i.sequence",
        (scenario, clean(session)),
    ).fetchall()
    if not rows:
        raise NotFound(
            f"There is no session {session[:80]} in scenario {scenario}.", "`reef sessions` lists them; -s NAME takes another scenario's."
        )
    return [int(row[0]) for row in rows]


def _of_record(connection: sqlite3.Connection, scenario: str, record: str) -> tuple[list[int], str]:
    row = connection.execute(
        "SELECT r.sequence, coalesce(s.key, '') FROM records r JOIN scenarios c ON c.id = r.scenario"
        " LEFT JOIN inferences i ON i.sequence = r.sequence LEFT JOIN sessions s ON s.id = i.session WHERE c.name = ? AND r.id = ?",
        (scenario, clean(record)),
    ).fetchone()
    if row is None:
        raise NotFound(f"There is no record {record[:80]} in scenario {scenario}.", "`reef session ID` shows receipts.")
    return [int(row[0])], str(row[1])


def _doomed(connection: sqlite3.Connection, scenario: str, session: str, sequences: Sequence[int], *, whole: bool) -> Doomed:
    reports = [int(cast(int, row[0])) for row in select(connection, "SELECT report FROM report_references WHERE target", list(sequences))]
    reports += [int(cast(int, row[0])) for row in select(connection, "SELECT sequence FROM reports WHERE sequence", list(sequences))]
    reports = sorted(set(reports))
    records = [sequence for sequence in sequences if sequence not in reports]
    details = select(connection, "SELECT detail FROM inferences WHERE sequence", list(records))
    blobs = {blob for (detail,) in details for blob in blobs_of(cast(bytes, detail))}
    garbage = find_garbage(connection, frozenset(records), blobs)
    receipts = _ids(connection, records)
    runs = {str(row[0]) for row in select(connection, "SELECT run FROM run_records WHERE record", list(receipts))}
    return Doomed(
        scenario=scenario,
        session=session,
        receipts=receipts,
        reports=_ids(connection, reports),
        runs=tuple(sorted(runs)),
        texts=_texts(connection, garbage, reports),
        repeated_in=() if whole else _repeating(connection, records),
        sequences=tuple(records),
        report_sequences=tuple(reports),
        garbage=garbage,
    )


def _ids(connection: sqlite3.Connection, sequences: Sequence[int]) -> tuple[str, ...]:
    found = dict(cast("list[tuple[int, str]]", select(connection, "SELECT sequence, id FROM records WHERE sequence", list(sequences))))
    return tuple(found[sequence] for sequence in sequences if sequence in found)


def _texts(connection: sqlite3.Connection, garbage: Garbage, reports: Sequence[int]) -> tuple[str, ...]:
    """What the messages and reports that go say, each once, the longest first."""
    found: dict[str, None] = {}
    query = "SELECT coalesce(m.body, b.data) FROM messages m LEFT JOIN blobs b ON b.id = m.blob WHERE m.id"
    for (body,) in select(connection, query, sorted(garbage.messages)):
        _collect(object_from_json(unpack(cast(bytes, body))), found)
    for (feedback,) in select(connection, "SELECT feedback FROM reports WHERE sequence", list(reports)):
        _collect(object_from_json(b'{"feedback":' + cast(str, feedback).encode() + b"}"), found)
    return tuple(sorted(found, key=len, reverse=True))


def _collect(value: JSON, found: dict[str, None]) -> None:
    if isinstance(value, str):
        if len(value.strip()) >= SHORTEST_TEXT:
            found[value.strip()] = None
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _collect(item, found)


def _repeating(connection: sqlite3.Connection, records: Collection[int]) -> tuple[str, ...]:
    """Later records of the same session whose prompt goes through the reply of one of these."""
    rows = connection.execute(
        "WITH RECURSIVE doomed (id) AS (SELECT reply FROM inferences WHERE sequence IN (SELECT value FROM json_each(?1))),"
        " chain (start, id) AS (SELECT i.sequence, i.prompt FROM inferences i WHERE i.sequence > (SELECT min(value) FROM json_each(?1))"
        " AND i.session IN (SELECT session FROM inferences WHERE sequence IN (SELECT value FROM json_each(?1)))"
        " UNION SELECT chain.start, m.parent FROM chain JOIN messages m ON m.id = chain.id WHERE m.parent IS NOT NULL)"
        " SELECT DISTINCT r.id FROM chain JOIN records r ON r.sequence = chain.start WHERE chain.id IN (SELECT id FROM doomed)"
        " AND chain.start NOT IN (SELECT value FROM json_each(?1)) ORDER BY r.sequence",
        (_list(records),),
    )
    return tuple(str(row[0]) for row in rows)


def _list(values: Iterable[int]) -> str:
    return "[" + ",".join(map(str, values)) + "]"


def _conversation(connection: sqlite3.Connection, sequence: int | None) -> list[dict[str, JSON]]:
    rows = connection.execute(
        "WITH RECURSIVE chain (id, depth) AS (SELECT prompt, 0 FROM inferences WHERE sequence = ? AND prompt IS NOT NULL"
        " UNION ALL SELECT m.parent, depth + 1 FROM chain JOIN messages m ON m.id = chain.id WHERE m.parent IS NOT NULL)"
        " SELECT coalesce(m.body, b.data) FROM chain JOIN messages m ON m.id = chain.id LEFT JOIN blobs b ON b.id = m.blob"
        " ORDER BY depth DESC",
        (sequence,),
    )
    return [object_from_json(unpack(row[0])) for row in rows]

"""A receipt that was given out is there, whatever happened to the process, the disk or the file."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from daemon.errors import DataError, StorageError
from daemon.experience import admission, database
from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.schema import MIGRATIONS
from daemon.experience.store import Store
from tests.experience.make import inference, report, user

_APPENDER = """
import sys, threading
from pathlib import Path
from daemon.experience.store import Store
from tests.experience.make import inference, report, user

store = Store.open(Path(sys.argv[1]))
lock = threading.Lock()

def work(name):
    number = 0
    while True:
        number += 1
        record = inference([user(f"{name} {number} " + "x" * 600)], "reply", session=name)
        store.append(record).result()
        feedback = report(record, score=1.0)
        store.append_report(feedback).result()
        with lock:
            print(record.id, feedback.id, flush=True)

for name in "abcd":
    threading.Thread(target=work, args=(name,)).start()
"""


@pytest.mark.parametrize("after_s", [0.05, 0.4])
def test_kill_9_loses_no_receipt_that_was_given_out(tmp_path: Path, after_s: float) -> None:
    """Twice on one database: the second start works on what the first kill left."""
    path = tmp_path / "experience.db"
    receipts: list[str] = []
    for _ in range(2):
        process = subprocess.Popen(
            [sys.executable, "-c", _APPENDER, str(path)], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]
        )
        if process.stdout is None:
            pytest.fail("no output")
        receipts.append(process.stdout.readline().strip())  # it has begun
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        rest, _ = process.communicate(timeout=20)
        receipts.extend(line for line in rest.splitlines() if len(line.split()) == 2)
    assert check(path) == []  # with no daemon there
    store = Store.open(path)  # checks itself after the unclean end
    reader = Reader(path)
    for line in receipts:
        record, feedback = line.split()
        assert [found.id for found in reader.reports_for(record)] == [feedback]
        assert reader.inference(record).reply["content"] == "reply"
    assert reader.connection().execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    assert reader.connection().execute("PRAGMA foreign_key_check").fetchall() == []
    reader.close()
    store.close()


def test_the_writer_waits_for_the_disk(store: Store) -> None:
    assert store.execute(lambda connection: connection.execute("PRAGMA synchronous").fetchone()[0]).result(10) == 2  # FULL
    assert store.execute(lambda connection: connection.execute("PRAGMA journal_mode").fetchone()[0]).result(10) == "wal"
    assert store.execute(lambda connection: connection.execute("PRAGMA foreign_keys").fetchone()[0]).result(10) == 1


def test_many_at_once_share_commits(store: Store, reader: Reader) -> None:
    commits: list[str] = []
    store.execute(lambda connection: connection.set_trace_callback(lambda sql: commits.append(sql) if sql == "COMMIT" else None)).result(10)
    with ThreadPoolExecutor(16) as pool:
        records = [inference([user(f"q{n}")], session=f"s{n}") for n in range(200)]
        sequences = list(pool.map(lambda record: store.append(record).result(10), records))
    store.execute(lambda connection: connection.set_trace_callback(None)).result(10)
    assert len(set(sequences)) == 200
    assert len(commits) < 150
    assert reader.counts("default").inferences == 200


def test_a_full_disk_is_said_and_nothing_is_half_written(store: Store, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tables take no more: receipts go on as long as the journal has room, and then no longer."""
    monkeypatch.setattr(admission, "FULL_BYTES", 60_000)
    kept = inference()
    store.append(kept).result(10)
    pages = store.execute(lambda connection: int(connection.execute("PRAGMA page_count").fetchone()[0])).result(10)
    store.execute(lambda connection: connection.execute(f"PRAGMA max_page_count = {pages + 4}").fetchone()).result(10)
    given, refused = [], []
    for number in range(40):
        record = inference([user(Random(number).randbytes(3000).hex())])
        try:
            store.append(record).result(10)
            given.append(record)
        except StorageError as error:
            assert "full" in error.message and error.hint
            refused.append(record)
    assert refused
    with pytest.raises(StorageError, match="full"):
        store.append_report(report(kept, score=1.0)).result(10)
    assert reader.inference(kept.id).id == kept.id, "what is in the tables can be read"
    store._connection.execute("PRAGMA max_page_count = 1000000").fetchone()  # space again; the writer is idle
    store.append_report(report(kept, score=1.0)).result(10)
    store.append(refused[0]).result(10)  # the same request, sent again
    assert len(given) > 5, "the journal took some"
    assert {item.id for item in reader.items("default", kind="inference")} == {record.id for record in (kept, *given, refused[0])}


def test_readers_do_not_wait_for_a_long_write(store: Store, reader: Reader) -> None:
    store.append(inference()).result(10)
    begun = threading.Event()

    def slow(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO words (text) VALUES ('slow')")
        begun.set()
        time.sleep(0.5)

    pending = store.execute(slow)
    assert begun.wait(10)
    started = time.monotonic()
    assert reader.counts("default").inferences == 1
    assert time.monotonic() - started < 0.3
    pending.result(10)


def test_a_reader_cannot_write(reader: Reader) -> None:
    with pytest.raises(sqlite3.OperationalError):
        reader.connection().execute("DELETE FROM records")


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    Store.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(DataError, match="newer Reef"):
        Store.open(path)


def test_a_backup_is_made_before_a_migration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    record = inference()
    store.append(record).result(10)
    store.close()
    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, lambda db: db.execute("CREATE TABLE later (x)")))
    Store.open(path).close()
    backup = tmp_path / f"experience.db.schema{len(MIGRATIONS)}.backup"
    with sqlite3.connect(backup) as connection:
        assert connection.execute("SELECT id FROM records").fetchall() == [(record.id,)]
        assert connection.execute("PRAGMA user_version").fetchone()[0] == len(MIGRATIONS)
    connection.close()


def test_a_failing_migration_leaves_the_database_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "experience.db"
    Store.open(path).close()

    def broken(db: object) -> None:
        raise sqlite3.OperationalError("no such thing")

    monkeypatch.setattr(database, "MIGRATIONS", (*MIGRATIONS, broken))
    with pytest.raises(StorageError, match="no such thing"):
        Store.open(path)
    monkeypatch.undo()
    Store.open(path).close()


def test_a_damaged_file_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    path.write_bytes(b"no database at all " * 100)
    with pytest.raises(StorageError, match="not a database"):
        Store.open(path)


def test_damage_is_found_after_an_unclean_stop(tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    for number in range(50):
        store.append(inference([user(f"{number} " + "y" * 300)])).result(10)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE facts SET value = 'open'")  # as a killed daemon leaves it
        pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
    connection.close()
    content = bytearray(path.read_bytes())
    for page in range(3, pages):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)
    with pytest.raises(StorageError):
        Store.open(path)


def test_an_unwritable_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Cannot create"):
        Store.open(tmp_path / "file" / "experience.db")
    with pytest.raises(StorageError):
        Store.open(tmp_path)


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "experience.db")
    store.close()
    store.close()
    with pytest.raises(StorageError, match="closed"):
        store.append(inference())


def test_a_long_check_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    store.append(inference()).result(10)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE facts SET value = 'open'")
    connection.close()
    monkeypatch.setattr(database, "_LARGE_BYTES", 0)
    monkeypatch.setattr(database, "_TELL_S", -1.0)
    told: list[str] = []
    Store.open(path, say=told.append).close()
    assert told[0].startswith("checking the experience database after an unclean stop, table 1 of")
    assert len(told) > 10
    told.clear()
    Store.open(path, say=told.append).close()  # closed in order
    assert told == []

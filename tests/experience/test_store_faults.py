"""Errors of the disk at every statement of a batch: what was promised is there, what was refused is not, and nothing is half written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest

from daemon.errors import StorageError
from daemon.experience import database
from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import Inference, TokenTrace
from daemon.redaction.redact import RedactionRule
from tests.experience.make import assistant, inference, report, user


class _Failing(sqlite3.Connection):
    """Lets one statement fail, as a disk does that has an error or is full."""

    fail_at = 0  # so many statements from now
    gives_up = False  # SQLite undoes the whole transaction
    failed = ""

    def execute(self, sql: str, parameters: object = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        self._count(sql)
        return super().execute(sql, parameters)  # type: ignore[arg-type]

    def executemany(self, sql: str, parameters: object, /) -> sqlite3.Cursor:  # type: ignore[override]
        self._count(sql)
        return super().executemany(sql, parameters)  # type: ignore[arg-type]

    def _count(self, sql: str) -> None:
        if not self.fail_at or sql.startswith("ROLLBACK"):
            return
        self.fail_at -= 1
        if not self.fail_at:
            self.failed = sql
            if self.gives_up and self.in_transaction:
                super().execute("ROLLBACK")
            raise sqlite3.OperationalError("database or disk is full" if self.gives_up else "disk I/O error")


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[tuple[Store, _Failing]]:
    path = tmp_path / "experience.db"
    database.open_writer(path).close()
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, factory=_Failing)
    database._prepare(connection, path, database.say_nothing)
    store = Store(path, connection, RedactionRule())
    store.append(inference()).result(10)
    yield store, connection
    store.close()


def _batch(number: int) -> list[Inference]:
    """Three that share a beginning, with token ids and tools."""
    tools = [{"name": f"tool{number}", "description": "words " * 200}]
    first = inference(
        [user(f"q{number} " + "x" * 600)], f"r{number}", session=f"s{number}", tokens=TokenTrace(tuple(range(300)), (1,), (0.0,))
    )
    second = inference([*first.messages, first.reply, user("more")], session=f"s{number}", request={"tools": tools})
    return [first, second, inference([user(f"other {number}")], assistant("y" * 700), session=f"o{number}")]


def _append_together(store: Store, batch: list[Inference]) -> list[Future[int]]:
    """While the writer is busy, so that they wait for the same commit."""
    go = threading.Event()
    store.execute(lambda connection: go.wait(10))
    futures = [store.append(record) for record in batch]
    go.set()
    return futures


@pytest.mark.parametrize("gives_up", [False, True])
def test_an_error_at_any_statement_leaves_nothing_half_written(failing: tuple[Store, _Failing], gives_up: bool) -> None:
    store, connection = failing
    reader = Reader(store.path)
    given: list[Inference] = []
    refused = 0
    statements = set()
    for number in range(1, 60):
        batch = _batch(number)
        connection.fail_at, connection.gives_up, connection.failed = number, gives_up, ""
        futures = _append_together(store, batch)
        for record, future in zip(batch, futures, strict=True):
            try:
                future.result(10)
                given.append(record)
            except StorageError as error:
                assert error.hint and ("full" in error.message or "I/O" in error.message)
                refused += 1
                with pytest.raises(Exception, match=record.id):
                    reader.inference(record.id)
        reader.counts("default")  # wants to see what is in the journal: an error in filing loses nothing of it, and does not stop reading
        statements.add(connection.failed.split(" (")[0])
        connection.fail_at = 0
        if not connection.failed:
            break
        for record in batch:  # sent again, each is stored once
            store.append(record).result(10)
    else:
        raise AssertionError("the batch never ended")
    assert refused and len(statements) > 8
    assert {item.id for item in reader.items("default", kind="inference", limit=1000)} >= {record.id for record in given}
    for record in given:
        stored = reader.inference(record.id)
        assert (stored.messages, stored.reply, stored.request, stored.tokens) == (
            record.messages,
            record.reply,
            record.request,
            record.tokens,
        )
    reader.close()
    store.close()
    assert check(store.path) == []


def test_an_error_while_a_report_is_written_leaves_its_session_counted_right(failing: tuple[Store, _Failing]) -> None:
    store, connection = failing
    record = inference(session="judged")
    store.append(record).result(10)
    for number in range(1, 30):
        connection.fail_at, connection.failed = number, ""
        future = store.append_report(report(record, score=1.0, report_id=f"report-{number}"))
        try:
            future.result(10)
        except StorageError:
            store.append_report(report(record, score=1.0, report_id=f"report-{number}")).result(10)
        connection.fail_at = 0
        if not connection.failed:
            break
    with_reports = Reader(store.path)
    assert with_reports.sessions(q="judged")[0].reports == number
    with_reports.close()
    store.close()
    assert check(store.path) == []


_WRITER = """
import resource, signal, sys
from pathlib import Path
from random import Random
from daemon.errors import StorageError
from daemon.experience.store import Store
from tests.experience.make import inference, user

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = Store.open(Path(sys.argv[1]))
store.append(inference()).result()
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + int(sys.argv[2]), hard))
refused = 0
for number in range(400):
    batch = [inference([user(Random(number * 9 + k).randbytes(1500).hex())]) for k in range(4)]
    for record, future in [(record, store.append(record)) for record in batch]:
        try:
            future.result()
            print(record.id, flush=True)
        except StorageError as error:
            refused += 1
    if refused > 20:
        break
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))  # space again
last = inference([user("after")])
store.append(last).result()
print(last.id, flush=True)
print("refused", refused)
store.close()
"""


@pytest.mark.parametrize("space", [100_000, 2_000_000])
def test_a_disk_that_is_really_full(tmp_path: Path, space: int) -> None:
    """A limit on the size of files fails in the same system calls."""
    path = tmp_path / "experience.db"
    answer = subprocess.run(
        [sys.executable, "-c", _WRITER, str(path), str(space)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert answer.returncode == 0, answer.stderr
    *receipts, refused = answer.stdout.split("\n")[:-1]
    assert int(refused.split()[1]) > 20
    assert check(path) == []
    reader = Reader(path)
    stored = {item.id for item in reader.items("default", limit=5000)}
    reader.close()
    assert set(receipts) <= stored and len(stored) == len(receipts) + 1

"""`reef fsck` finds what a disk or a hand has changed in the database, and says nothing about a sound one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from daemon.experience.check import check, logged_releases
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import TokenTrace
from tests.experience.make import inference, report, system, user


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    for turn in range(3):
        record = inference([system("long text " * 100), user(f"q{turn}")], tokens=TokenTrace(tuple(range(600)), (1,), (-1.0,)))
        store.append(record)
        store.append_report(report(record, score=1.0)).result(10)
    reader = Reader(path)
    log = OperationLog(store, reader)
    log.append("default", "creation", None, "r1", "daemon")
    log.append("default", "settings", None, None, "owner")
    log.append("default", "training", "r1", "r2", "schedule").result(10)
    assert logged_releases(reader) == {"default": ["r1", "r2"]}
    reader.close()
    store.close()
    return path


def test_a_sound_database_has_no_problems(filled: Path, tmp_path: Path) -> None:
    assert check(filled) == []
    assert check(tmp_path / "none.db") == []


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("UPDATE blobs SET data = x'0041'", "stored text"),
        ("UPDATE blobs SET data = x'0141'", "stored text"),
        ("UPDATE messages SET body = x'0041' WHERE body IS NOT NULL", "stored message"),
        ("UPDATE token_blocks SET data = x'0041'", "token ids"),
        ("DELETE FROM inferences WHERE sequence = 1", "has no content"),
        ("UPDATE sessions SET turns = 99", "counts its turns"),
    ],
)
def test_what_was_changed_is_found(filled: Path, change: str, sentence: str) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute(change)
    connection.close()
    assert any(sentence in problem for problem in check(filled))

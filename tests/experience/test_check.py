"""`reef fsck` finds what a disk or a hand has changed in the database, and says nothing about a sound one."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.experience.check import check, check_search, logged_releases
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.removal import forget
from daemon.experience.search.file import index_path
from daemon.experience.store import Store
from daemon.records import JSONObject, Lineage, Step, TokenTrace
from tests.experience.make import inference, report, system, user

_TOOLS: JSONObject = {"tools": [{"name": "tool", "description": "words " * 200}]}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    for turn in range(3):
        record = inference(
            [system("long text " * 100), user(f"q{turn}")], tokens=TokenTrace(tuple(range(600)), (1,), (-1.0,)), request=_TOOLS
        )
        store.append(record)
        store.append_report(report(record, score=1.0)).result(10)
    reader = Reader(path)
    log = OperationLog(store, reader)
    log.append("default", "creation", None, "r1", "daemon")
    log.append("default", "settings", None, None, "owner")
    log.append("default", "training", "r1", "r2", "schedule").result(10)
    assert logged_releases(reader) == {"default": ["r1", "r2"]}
    reader.close()
    assert store.catch_up(10)
    store.close()
    return path


def test_a_sound_database_has_no_problems(filled: Path, tmp_path: Path) -> None:
    assert check(filled) == [] == check_search(filled)
    assert check(tmp_path / "none.db") == []


@pytest.mark.parametrize("step", [Step.RETRY, Step.CHOICE])
def test_a_retry_and_a_further_choice_count_with_their_turn(tmp_path: Path, step: Step) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    first, second = inference([user("one")]), inference([user("two")])
    for record in (first, replace(first, id="in-again", lineage=Lineage(step, first.id)), second):
        store.append(record).result(10)
    assert check(path) == []
    reader = Reader(path)
    forget.erase(store, forget.find(reader, "default", record=second.id))
    assert check(path) == []
    assert [session.turns for session in reader.sessions()] == [1]
    reader.close()
    store.close()


@pytest.mark.parametrize("together", [True, False])
def test_a_further_choice_that_ends_first_still_belongs_to_the_first_one(tmp_path: Path, together: bool) -> None:
    path = tmp_path / "experience.db"
    store = Store.open(path)
    first = inference([user("one")], "slow", lineage=Lineage(Step.BEGIN))
    quick = replace(inference([user("one")], "quick"), lineage=Lineage(Step.CHOICE, first.id))
    if together:
        store.append_imported([quick, first]).result(10)
    else:
        for record in (quick, first):
            store.append(record).result(10)
    reader = Reader(path)
    turns = reader.session("s1").turns
    assert [turn.inference.id for turn in turns] == [first.id, quick.id]
    assert turns[1].inference.lineage.follows == first.id
    assert [len(turn.new_messages) for turn in turns] == [1, 0], "the request is shown once"
    assert check(path) == []
    reader.close()
    store.close()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("UPDATE blobs SET data = x'0041'", "stored text"),
        ("UPDATE blobs SET data = x'0141'", "stored text"),
        ("UPDATE messages SET body = x'0041' WHERE body IS NOT NULL", "stored message"),
        ("UPDATE token_blocks SET data = x'0041'", "token ids"),
        ("DELETE FROM inferences WHERE sequence = 1", "has no content"),
        ("UPDATE sessions SET turns = 99", "counts its turns"),
        ("UPDATE sessions SET asides = 1", "counts its turns"),
        ("UPDATE sessions SET last_sequence = 2", "counts its turns"),
        ("UPDATE sessions SET reports = 1", "counts its reports"),
        ("UPDATE sessions SET releases = '[]'", "counts its reports or releases"),
        ("UPDATE inferences SET detail = x'0041'", "cannot be read"),
        ("UPDATE inferences SET trace = x'0041'", "cannot be read"),
        ("DELETE FROM blobs WHERE id = 1", "cannot be read"),  # its tools
        ("DELETE FROM messages WHERE id = 1", "refers to nothing"),
        ("DELETE FROM words", "refers to nothing"),
        ("UPDATE inferences SET parent = 5 WHERE sequence = 1", "goes on from one that came after it"),
    ],
)
def test_what_was_changed_is_found(filled: Path, change: str, sentence: str) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute(change)
    connection.close()
    assert any(sentence in problem for problem in check(filled))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ("DELETE FROM documents WHERE sequence = 1", "lacks 1 turns"),
        ("INSERT INTO documents VALUES (99, 0)", "words of 1 records that are gone"),
        ("UPDATE facts SET value = 0 WHERE name = 'version'", "cannot be read"),
        ("DROP TABLE documents", "damaged"),
    ],
)
def test_what_is_wrong_with_the_search_index_is_found(filled: Path, change: str, sentence: str) -> None:
    with sqlite3.connect(index_path(filled)) as connection:
        connection.execute(change)
    connection.close()
    assert any(sentence in problem for problem in check_search(filled))
    assert check(filled) == []


def test_a_database_of_an_earlier_reef_is_no_damage(filled: Path) -> None:
    with sqlite3.connect(filled) as connection:
        connection.execute("PRAGMA user_version = 1")
        connection.execute("ALTER TABLE sessions DROP COLUMN reports")
    connection.close()
    assert check(filled) == []

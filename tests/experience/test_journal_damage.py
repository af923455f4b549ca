"""A journal whose bytes are not what was written: what can be read is taken up, what cannot is kept and told, nothing is wiped silently."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import DataError, ReefError, StorageError
from daemon.experience import writer as writers
from daemon.experience.check import check
from daemon.experience.entry import Entry
from daemon.experience.journal import Damaged, Journal, damaged_path, entries, journal_path, pieces, set_aside, unfiled_path
from daemon.experience.reader import Reader
from daemon.experience.removal import forget
from daemon.experience.rows import Rows
from daemon.experience.store import Store
from daemon.records import Inference
from tests.experience.make import inference, user
from tests.experience.test_journal import _kill, _turns

FRAME_BYTES = 16


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is filed until somebody wants to see it."""
    monkeypatch.setattr(writers, "_PAUSE_S", 60.0)


@pytest.fixture
def left(tmp_path: Path, unhurried: None) -> tuple[Path, list[Inference]]:
    """What a killed process leaves: five records of as many sessions in the journal, the tables empty; the database's path."""
    store = Store.open(tmp_path / "alive" / "experience.db")
    records = [inference([user(f"question {number}")], session=f"s{number}") for number in range(5)]
    for record in records:
        store.append(record).result(10)
    killed = _kill(store, tmp_path / "killed")
    store.close()
    return killed, records


def _stored(database: Path) -> list[str]:
    reader = Reader(database)
    try:
        return [item.id for item in reader.items("default")]
    finally:
        reader.close()


def _second_entry(journal: Path) -> int:
    return 8 + FRAME_BYTES + len(next(entries(journal))[1])


def _overwrite(path: Path, at: int, new: bytes) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:at] + new + data[at + len(new) :])


@pytest.mark.parametrize("inside", [2, 9, 13, FRAME_BYTES + 20])  # the sequence, the length, the checksum, the record
def test_one_damaged_entry_costs_its_own_record_alone_and_is_told(left: tuple[Path, list[Inference]], inside: int) -> None:
    database, records = left
    journal = journal_path(database)
    place = _second_entry(journal) + inside
    _overwrite(journal, place, bytes([journal.read_bytes()[place] ^ 0x40]))
    assert "cannot be read" in check(database)[0]
    with_damage = Store.open(database)
    assert with_damage.unreadable_bytes > FRAME_BYTES
    with_damage.close()
    assert _stored(database) == [record.id for number, record in enumerate(records) if number != 1]
    kept = damaged_path(journal)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and kept.stat().st_size == with_damage.unreadable_bytes
    assert journal.stat().st_size == 0 and kept.name in check(database)[0]
    again = Store.open(database)
    assert again.unreadable_bytes == 0
    again.close()


def test_what_goes_on_from_a_damaged_record_is_kept_beside_the_tables(tmp_path: Path, unhurried: None) -> None:
    """It names messages that only the damaged one had brought."""
    store = Store.open(tmp_path / "experience.db")
    turns = [*_turns(3), *_turns(1, "other")]
    for turn in turns:
        store.append(turn).result(10)
    killed = _kill(store, tmp_path / "killed")
    store.close()
    journal = journal_path(killed)
    _overwrite(journal, 8 + FRAME_BYTES + 50, b"\xff")
    Store.open(killed).close()
    waiting = [Entry.from_bytes(data).id for _, data in entries(unfiled_path(journal))]
    assert sorted([*_stored(killed), *waiting]) == sorted(turn.id for turn in turns[1:])


def test_an_entry_that_a_crash_cut_off_is_no_damage(left: tuple[Path, list[Inference]]) -> None:
    database, records = left
    journal = journal_path(database)
    journal.write_bytes(journal.read_bytes()[:-5])
    assert check(database) == []
    store = Store.open(database)
    assert store.unreadable_bytes == 0
    store.close()
    assert _stored(database) == [record.id for record in records[:-1]] and not damaged_path(journal).exists()


def test_a_journal_of_a_newer_reef_is_left_alone(left: tuple[Path, list[Inference]]) -> None:
    database, records = left
    journal = journal_path(database)
    written = journal.read_bytes()
    newer = b"reefjrn2" + b"what only that one can read" * 9
    journal.write_bytes(newer)
    for _ in range(2):
        with pytest.raises(DataError, match="newer Reef"):
            Store.open(database)
    assert journal.read_bytes() == newer and "newer" in check(database)[0]
    journal.write_bytes(written)
    Store.open(database).close()
    assert _stored(database) == [record.id for record in records]


def _link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))


def _dangling(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("become", [_link, _dangling, _folder, _pipe])
def test_what_is_no_file_of_reefs_is_refused_by_name_and_not_written_through(
    left: tuple[Path, list[Inference]], become: Callable[[Path], None]
) -> None:
    database, _ = left
    journal = journal_path(database)
    become(journal)
    with pytest.raises(StorageError, match=r"experience\.journal is a link, a folder or a device") as error:
        Store.open(database)
    assert error.value.hint and "is a link" in check(database)[0]
    assert not journal.with_name("nowhere").exists()


def test_others_may_not_read_a_journal_that_somebody_put_there(left: tuple[Path, list[Inference]]) -> None:
    database, records = left
    journal_path(database).chmod(0o644)
    Store.open(database).close()
    assert stat.S_IMODE(journal_path(database).stat().st_mode) == 0o600 and len(_stored(database)) == len(records)


def test_what_could_not_be_read_goes_when_a_session_is_forgotten(left: tuple[Path, list[Inference]]) -> None:
    """Nobody knows whose it is."""
    database, records = left
    journal = journal_path(database)
    _overwrite(journal, _second_entry(journal) + 40, b"\xff")
    store = Store.open(database)
    assert damaged_path(journal).exists()
    reader = Reader(database)
    assert forget.erase(store, forget.find(reader, "default", session="s0"))
    reader.close()
    store.close()
    assert not damaged_path(journal).exists() and check(database) == []
    assert _stored(database) == [record.id for record in records[2:]]


def test_a_crash_while_set_aside_records_are_tried_again_loses_none(
    left: tuple[Path, list[Inference]], monkeypatch: pytest.MonkeyPatch
) -> None:
    database, records = left
    journal = journal_path(database)
    moved = list(entries(journal))
    journal.unlink()
    set_aside(journal, moved[:2])

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Rows, "file", broken)
    monkeypatch.setattr("daemon.files.os.replace", killed)
    monkeypatch.setattr("daemon.experience.journal.os.write", killed)
    with pytest.raises(KeyboardInterrupt):
        Store.open(database)
    monkeypatch.undo()
    Store.open(database).close()
    assert _stored(database) == [record.id for record in records[:2]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6), st.data())
def test_damage_anywhere_costs_the_entries_that_it_touches(
    tmp_path_factory: pytest.TempPathFactory, given_entries: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "experience.journal"
    journal = Journal(path)
    written = list(enumerate(given_entries, 7))
    for one in written:
        journal.append([one])
    journal.close()
    content = path.read_bytes()
    start = data.draw(st.integers(0, len(content) - 1))
    end = min(len(content), start + data.draw(st.integers(1, 40)))
    noise = data.draw(st.binary(min_size=end - start, max_size=end - start))
    path.write_bytes(content[:start] + noise + content[end:])
    whole, at = [], 8
    for sequence, entry in written:
        behind = at + FRAME_BYTES + len(entry)
        if content[at:behind] == path.read_bytes()[at:behind]:
            whole.append((sequence, entry))
        at = behind
    try:
        found = list(pieces(path))
    except ReefError:
        assert start < 8 and not whole, "only a beginning that names another format may be refused"
        return
    assert [one for one in found if not isinstance(one, Damaged)] == whole

"""Receipts that rest on the journal alone: whatever happens to process, disk or file before the tables have them, none is lost."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import stat
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.backup.archive import allowed
from daemon.errors import DataError, StorageError
from daemon.experience import journal as journals
from daemon.experience import writer as writers
from daemon.experience.check import check
from daemon.experience.entry import Entry, Piece
from daemon.experience.journal import Journal, entries, journal_path, pieces, unfiled_path
from daemon.experience.reader import Reader
from daemon.experience.removal import forget
from daemon.experience.rows import Rows
from daemon.experience.store import Store
from daemon.records import Inference, Lineage, Step, TokenTrace
from tests.experience.make import assistant, inference, report, user


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is filed until somebody wants to see it."""
    monkeypatch.setattr(writers, "_PAUSE_S", 60.0)


def _turns(count: int, session: str = "s") -> list[Inference]:
    turns: list[Inference] = []
    for number in range(count):
        before = [*turns[-1].messages, turns[-1].reply] if turns else []
        lineage = Lineage(Step.CONTINUE, turns[-1].id, added=len(before)) if turns else Lineage(Step.BEGIN)
        asked = [*before, user(f"question {number} " + "x" * 600)]
        tools = [{"name": "ls", "description": "lists " * 200}]
        tokens = TokenTrace(tuple(range(300)), (1, 2), (0.0, -1.0))
        record = inference(asked, assistant(f"answer {number}"), session=session, request={"tools": tools, "n": None}, tokens=tokens)
        turns.append(replace(record, lineage=lineage))
    return turns


def _told(record: Inference) -> Inference:
    return replace(record, sequence=0, lineage=Lineage(record.lineage.step, record.lineage.follows))


def _kill(store: Store, folder: Path) -> Path:
    """The files as a killed process leaves them, elsewhere; its database's path."""
    folder.mkdir()
    for path in store.path.parent.iterdir():
        if path.is_file() and not path.name.endswith("-shm"):
            (folder / path.name).write_bytes(path.read_bytes())
    return folder / store.path.name


def test_a_start_takes_up_what_a_killed_process_had_promised(tmp_path: Path, unhurried: None) -> None:
    store = Store.open(tmp_path / "experience.db")
    turns = _turns(5)
    sequences = [store.append(turn).result(10) for turn in turns]
    killed = _kill(store, tmp_path / "killed")
    assert len(list(entries(journal_path(killed)))) == 5, "the tables have none of them"
    assert check(killed) == [], "what waits is no fault"
    reader = Reader(store.path)
    expected = [(item.sequence, _told(item)) for item in reader.items("default")]  # the tables took them up without a crash
    assert [sequence for sequence, _ in expected] == sequences and journal_path(store.path).stat().st_size == 0
    for _ in range(2):  # the second start finds nothing to do
        Store.open(killed).close()
        after = Reader(killed)
        assert [(item.sequence, _told(item)) for item in after.items("default")] == expected
        assert after.session("s").summary.turns == 5
        assert [turn.signals for turn in after.session("s").turns] == [turn.signals for turn in reader.session("s").turns]
        after.close()
        assert check(killed) == []
    reader.close()
    store.close()


def test_what_was_filed_and_is_in_the_journal_still_is_stored_once(tmp_path: Path, unhurried: None) -> None:
    """Killed between the commit of the tables and the emptying of the journal; also where a record was forgotten since."""
    store = Store.open(tmp_path / "experience.db")
    turns = _turns(3)
    for turn in turns:
        store.append(turn).result(10)
    waiting = journal_path(store.path).read_bytes()
    reader = Reader(store.path)
    assert forget.erase(store, forget.find(reader, "default", record=turns[2].id))
    reader.close()
    store.close()
    journal_path(store.path).write_bytes(waiting)
    store = Store.open(store.path)
    later = inference([user("later")])
    assert store.append(later).result(10) == 4
    reader = Reader(store.path)
    assert [item.id for item in reader.items("default")] == [turns[0].id, turns[1].id, later.id]
    reader.close()
    store.close()
    assert check(store.path) == []


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=6), st.data())
def test_a_journal_that_is_cut_off_anywhere_gives_a_whole_beginning(
    tmp_path_factory: pytest.TempPathFactory, given_entries: list[bytes], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("journal") / "experience.journal"
    journal = Journal(path)
    written = list(enumerate(given_entries, 7))
    for one in written:
        journal.append([one])
    journal.close()
    assert list(entries(path)) == written and stat.S_IMODE(path.stat().st_mode) == 0o600
    content = path.read_bytes()
    place = data.draw(st.integers(0, len(content)))
    for end in (place, *range(min(9, len(content)))):  # within the mark that it begins with, too
        path.write_bytes(content[:end])
        left = list(pieces(path))
        assert left == written[: len(left)]


class _Disk:
    """Lets the journal's writes stop half-way, or its syncs fail."""

    def __init__(self) -> None:
        self.full = self.failing = False

    def write(self, file: int, data: memoryview) -> int:
        if self.full:
            self.full = False
            os.pwrite(file, data[: len(data) // 2], 0)  # appended all the same: the file is open for that
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data[: max(1, len(data) // 3)])

    def sync(self, file: int) -> None:
        if self.failing:
            self.failing = False
            raise OSError(errno.EIO, "Input/output error")
        os.fdatasync(file)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Disk]:
    disk = _Disk()
    monkeypatch.setattr(journals, "_write", disk.write)
    monkeypatch.setattr(journals, "_sync", disk.sync)
    yield disk


def test_a_disk_that_fails_refuses_and_what_comes_later_is_found(disk: _Disk, tmp_path: Path, unhurried: None) -> None:
    store = Store.open(tmp_path / "experience.db")
    turns = _turns(7)
    given = []
    for number, turn in enumerate(turns):
        disk.full, disk.failing = number == 2, number == 4
        if number in (2, 4):
            with pytest.raises(StorageError, match=r"No space|Input/output") as error:
                store.append(turn).result(10)
            assert error.value.hint and store.commits.failing
        else:
            store.append(turn).result(10)
            given.append(turn.id)
    killed = _kill(store, tmp_path / "killed")
    store.close()
    for path in (store.path, killed):
        Store.open(path).close()
        reader = Reader(path)
        assert [item.id for item in reader.items("default")] == given
        assert reader.inference(given[-1]).messages == turns[-1].messages
        reader.close()
        assert check(path) == []


def test_a_receipt_that_waits_is_not_given_twice(store: Store, unhurried: None) -> None:
    record = inference([user("once")])
    place = store.append(record).result(10)
    assert store.append(record).result(10) == place
    with pytest.raises(Exception, match="taken"):
        store.append(replace(record, reply=assistant("other"))).result(10)


def test_a_report_finds_the_record_that_waits_and_comes_behind_it(store: Store, reader: Reader, unhurried: None) -> None:
    record = inference([user("judged")])
    place = store.append(record).result(10)
    assert store.append_report(report(record, score=1.0)).result(10) == place + 1
    assert [item.sequence for item in reader.items("default")] == [place, place + 1]


def test_an_edited_reply_is_seen_though_the_first_waits_still(store: Store, reader: Reader, unhurried: None) -> None:
    first = inference([user("write it")], assistant("The quick brown fox jumps over the lazy dog, twice. " * 3), session="s")
    store.append(first).result(10)
    changed = [*first.messages, assistant("The quick red fox jumps over the lazy dog, twice. " * 3), user("and now?")]
    store.append(replace(inference(changed, session="s"), lineage=Lineage(Step.CONTINUE, first.id, added=2, echoed=False))).result(10)
    assert reader.session("s").turns[0].signals == ("edited",)


def test_under_a_steady_load_the_journal_is_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unhurried: None) -> None:
    """It does not grow without end where nothing ever pauses."""
    monkeypatch.setattr("daemon.experience.admission.FULL_BYTES", 200_000)
    store = Store.open(tmp_path / "experience.db")
    sizes = []
    for number in range(300):
        store.append(inference([user(f"{number} " + "z" * 400)], session=f"s{number % 7}")).result(10)
        sizes.append(journal_path(store.path).stat().st_size)
    assert max(sizes) < 400_000 and sizes.count(0) == 0 and min(sizes[100:]) < 10_000
    store.close()
    reader = Reader(store.path)
    assert reader.counts("default").inferences == 300
    reader.close()


def test_what_the_tables_do_not_take_is_kept_said_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, unhurried: None
) -> None:
    """A bug, in short: the others must not wait for it, and its receipt was given out."""
    turns = [*_turns(3), *_turns(1, "other")]
    original = Rows.file

    def broken(self: Rows, connection: sqlite3.Connection, numbered: list[tuple[int, Entry]]) -> None:
        if any(entry.id == turns[3].id for _, entry in numbered):
            raise ZeroDivisionError
        original(self, connection, numbered)

    monkeypatch.setattr(Rows, "file", broken)
    store = Store.open(tmp_path / "experience.db")
    for turn in turns:
        store.append(turn).result(10)
    reader = Reader(store.path)
    assert [item.id for item in reader.items("default")] == [turn.id for turn in turns[:3]]
    assert turns[3].id in caplog.text
    aside = unfiled_path(journal_path(store.path))
    assert stat.S_IMODE(aside.stat().st_mode) == 0o600 and "tried again" in check(store.path)[0] and allowed(aside.name)
    store.close()
    Store.open(store.path).close()  # the same bug still
    assert len(list(entries(aside))) == 1
    monkeypatch.undo()
    Store.open(store.path).close()
    assert [item.id for item in reader.items("default")] == [turn.id for turn in turns]
    reader.close()
    assert not aside.exists() and check(store.path) == []


def test_readers_wait_for_what_has_a_receipt_and_for_nothing_else(store: Store, reader: Reader, unhurried: None) -> None:
    records = [inference([user(f"q{number}")]) for number in range(20)]

    def ask(record: Inference) -> None:
        store.append(record).result(10)
        found.append(reader.inference(record.id).id)

    found: list[str] = []
    threads = [threading.Thread(target=ask, args=(record,)) for record in records]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(found) == sorted(record.id for record in records)


def test_a_new_conversation_is_placed_at_once_though_records_wait(tmp_path: Path, unhurried: None) -> None:
    """It is asked of the database whether it goes on from an old session; the tables need not take anything up for that."""
    with contextlib.closing(Store.open(tmp_path / "experience.db")) as store:
        store.append(inference([user("old")])).result(10)
    with contextlib.closing(Store.open(tmp_path / "experience.db")) as store:
        begun = [user("hello"), assistant("an answer of another server"), user("and now?")]
        assert store.resolve_session("default", None, begun).is_new
        record = inference([user("q")], assistant("a reply"))
        store.append(record).result(10)
        waiting = journal_path(store.path).read_bytes()
        assert store.resolve_session("default", None, begun).is_new
        assert journal_path(store.path).read_bytes() == waiting != b""
        store.forget_placed()
        assert store.resolve_session("default", None, [*record.messages, record.reply, user("more")]).session == record.session


_texts = st.text(st.characters(codec="utf-8"), max_size=20)
_pieces = st.builds(Piece, st.binary(max_size=16), st.binary(max_size=16), st.binary(max_size=16), st.binary(max_size=40))
_blocks = st.builds(Piece, st.binary(max_size=16), st.binary(max_size=16), st.just(b""), st.binary(max_size=40))


@settings(max_examples=100, deadline=None)
@given(
    st.builds(
        Entry,
        *[_texts] * 3,
        st.floats(0, 1e10),
        *[_texts] * 7,
        st.integers(0, 6),
        *[_texts] * 3,
        *[st.binary(max_size=30)] * 7,
        st.lists(st.tuples(_texts, st.binary(max_size=16)), max_size=3),
        st.lists(st.tuples(st.binary(max_size=16), st.binary(max_size=40)), max_size=3),
        st.lists(_pieces, max_size=3),
        st.lists(_blocks, max_size=3),
    ),
    st.integers(0, 400),
)
def test_an_entry_reads_back_as_it_was_and_a_part_of_one_does_not(entry: Entry, cut: int) -> None:
    data = entry.to_bytes()
    assert Entry.from_bytes(data) == entry
    if cut < len(data):
        with pytest.raises(DataError):
            Entry.from_bytes(data[:cut])

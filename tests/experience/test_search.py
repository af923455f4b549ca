"""Words that somebody remembers of a conversation find it, whatever else they typed; and what was forgotten is found no more."""

from __future__ import annotations

import sqlite3
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.experience.check import check_search
from daemon.experience.reader import Reader
from daemon.experience.removal.forget import resume
from daemon.experience.removal.sweeping import begin_erasing
from daemon.experience.search.file import index_path
from daemon.experience.search.text import Query
from daemon.experience.store import Store
from daemon.records import Message, TurnKind
from tests.experience.make import assistant, inference, report, system, user

_CALL: Message = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {
            "id": "c1",
            "type": "function",
            "function": {"name": "read_file", "arguments": '{"path": "src/lib/parse_args.py", "why": "a\\nlook"}'},
        }
    ],
}


def _found(reader: Reader, words: str, scenario: str | None = "default") -> list[str]:
    return [summary.id for summary in reader.sessions(scenario, q=words)]


@pytest.fixture
def filled(store: Store) -> Store:
    store.append(
        inference([system("You are an assistant."), user("Why does the naïve parser fail?")], "It reads past the end.", session="parser")
    )
    store.append(inference([user("List the files")], _CALL, session="files"))
    store.append(
        inference(
            [
                user("List the files"),
                _CALL,
                {"role": "tool", "tool_call_id": "c1", "content": "def getUserName(self): return 日本語のテスト"},
            ],
            "Done with snake_case_names.",
            session="files",
        )
    )
    store.append(inference([user("List the files")], "none", session="again"))
    other = inference([user("Why is the sky blue?")], "Rayleigh.", session="sky", scenario="pi")
    store.append(other)
    store.append_report(
        report(other, score=0.0, feedback={"note": "too terse, says nothing", "correction": "Because of scattering."})
    ).result(10)
    return store


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize(
    ("words", "sessions"),
    [
        ("parser", ["parser"]),
        ("PARSER naive", ["parser"]),
        ('"past the end"', ["parser"]),
        ('"end the past"', []),
        ("parser files", []),
        ("list files", ["again", "files"]),  # a beginning that two sessions share finds both
        ("snake_case_names", ["files"]),
        ("case_names", ["files"]),
        ("src/lib/parse_args.py", ["files"]),
        ("parse_args", ["files"]),
        ("read_file", ["files"]),
        ("look", ["files"]),
        ("getUserName", ["files"]),
        ("getUser", ["files"]),  # no such word: those that begin so
        ("getUs*", ["files"]),
        ("日本語", ["files"]),
        ("本語 getUserName", ["files"]),
        ("assistant", []),  # in a system text only
        ("sky", []),  # in another scenario
        ("files", ["again", "files"]),
        ("again", ["again"]),  # its id
    ],
)
def test_words_find_their_sessions(filled: Store, reader: Reader, words: str, sessions: list[str], indexed: bool) -> None:
    if indexed:
        assert filled.catch_up(10)
    assert _found(reader, words) == sessions


def test_reports_are_found_and_so_is_a_receipt(filled: Store, reader: Reader) -> None:
    filled.catch_up(10)
    assert _found(reader, "terse", "pi") == _found(reader, "scattering", None) == ["sky"]
    receipt = reader.session("sky").turns[0].inference.id
    assert _found(reader, receipt, "pi") == ["sky"]
    assert _found(reader, receipt) == []


def test_what_was_found_is_shown(filled: Store, reader: Reader) -> None:
    filled.catch_up(10)
    [summary] = reader.sessions("default", q="getUserName")
    assert "def getUserName(self)" in summary.snippet
    assert "\n" not in summary.snippet
    [summary] = reader.sessions("pi", q="terse")
    assert summary.snippet.startswith("too terse") and summary.title == "Why is the sky blue?"


def test_what_was_written_last_is_found_at_once_and_the_rest_before_long(store: Store, reader: Reader) -> None:
    for number in range(40):
        store.append(inference([user(f"question number{number}")], session=f"s{number}")).result(10)
        if number == 20:
            store.catch_up(10)
    assert _found(reader, "number39") == ["s39"]
    assert _found(reader, "number20") == ["s20"]
    assert _found(reader, "question") == [f"s{number}" for number in reversed(range(40))]
    until = time.monotonic() + 10
    while store.index_lag and time.monotonic() < until:
        time.sleep(0.05)
    assert store.index_lag == 0


def test_pages_follow_one_another(store: Store, reader: Reader) -> None:
    for number in range(60):
        store.append(inference([user(f"common {number}")], session=f"s{number % 20}"))
    store.append(inference([user("the end")])).result(10)
    store.catch_up(10)
    seen: list[str] = []
    before = None
    while page := reader.sessions("default", 6, before, "common"):
        seen += [summary.id for summary in page]
        before = page[-1].found
    assert seen == [f"s{number}" for number in reversed(range(20))]


def test_asides_and_archived_scenarios_are_not_found(store: Store, reader: Reader) -> None:
    store.append(inference([user("zebra")], kind=TurnKind.ASIDE))
    store.append(inference([user("lion")], scenario="old")).result(10)
    store.archive_scenario("old").result(10)
    store.catch_up(10)
    assert _found(reader, "zebra") == _found(reader, "lion", None) == []


def test_secrets_are_not_in_the_index(store: Store, reader: Reader) -> None:
    store.append(inference([user("use ghp_0123456789abcdefghij0123456789abcdef please")])).result(10)
    store.catch_up(10)
    assert _found(reader, "ghp_0123456789abcdefghij0123456789abcdef") == []
    assert _found(reader, "please") == ["s1"]


@pytest.mark.parametrize("wipe", [True, False])
def test_forgotten_words_are_found_no_more(filled: Store, reader: Reader, wipe: bool) -> None:
    secret = inference([user("the password is xylophone quagmire")], "noted xylophone", session="secret")
    sequence = filled.append(secret).result(10)
    later = inference([*secret.messages, secret.reply, user("and the marzipan?")], session="secret")
    other = filled.append(later).result(10)
    filled.catch_up(10)
    index = index_path(filled.path)
    assert b"ylopho" in _bytes(index)
    filled.forget_words([sequence, other, 999_999], wipe=wipe)
    filled.forget_words([sequence], wipe=wipe)  # again: nothing more
    assert _found(reader, "xylophone") == _found(reader, "marzipan") == []
    assert _found(reader, "parser") == ["parser"]
    with sqlite3.connect(index) as connection:
        connection.execute("INSERT INTO turns (turns) VALUES ('integrity-check')")
    connection.close()
    if wipe:
        assert b"ylopho" not in _bytes(index) and b"uagmir" not in _bytes(index)


def test_a_lost_or_damaged_index_is_made_again(filled: Store, reader: Reader) -> None:
    filled.catch_up(10)
    filled.close()
    index = index_path(filled.path)
    for damage in (index.unlink, lambda: index.write_bytes(b"no index " * 999)):
        damage()
        assert _found(reader, "snake_case_names") == ["files"]  # without one, the newest records are searched
        again = Store.open(filled.path)
        assert again.catch_up(10)
        again.close()
        assert _found(reader, "snake_case_names") == ["files"]
        assert reader.sessions("default", q="snake_case_names")[0].snippet


def test_the_index_of_a_newer_database_is_not_taken_for_an_older_one(tmp_path: Path) -> None:
    """After a backup was put back, sequences are given again to other records."""
    path = tmp_path / "experience.db"
    store = Store.open(path)
    store.append(inference([user("first")])).result(10)
    store.close()
    backup = path.read_bytes()
    store = Store.open(path)
    for _ in range(3):
        store.append(inference([user("gone")], session="gone")).result(10)
    store.catch_up(10)
    store.close()
    path.write_bytes(backup)
    store = Store.open(path)
    store.append(inference([user("second")], session="second")).result(10)
    assert store.catch_up(10)
    with _Open(path) as reader:
        assert _found(reader, "gone") == []
        assert _found(reader, "second") == ["second"]
    store.close()


def _bytes(path: Path) -> bytes:
    return b"".join(part.read_bytes() for part in path.parent.glob(path.name + "*"))


class _Open:
    def __init__(self, path: Path) -> None:
        self._reader = Reader(path)

    def __enter__(self) -> Reader:
        return self._reader

    def __exit__(self, *_: object) -> None:
        self._reader.close()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.sampled_from("ab \"*():^-+{}[]'\\\0.,;ANDORNOTNEAR語é\ud800"), max_size=30) | st.text(max_size=20))
def test_nothing_that_is_typed_is_a_syntax_error(filled: Store, reader: Reader, words: str) -> None:
    reader.sessions("default", q=words)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "Z", "P", "S")), min_size=1, max_size=40))
def test_a_text_is_found_by_itself(filled: Store, reader: Reader, text: str) -> None:
    quoted = text.replace('"', " ").replace("*", " ")
    if not Query.of(quoted).phrases:
        return
    record = replace(inference([user(text)], assistant("ok")), session=f"t{time.monotonic_ns()}")
    filled.append(record).result(10)
    assert record.session in _found(reader, f'"{quoted}"')


def test_what_a_killed_forgetting_took_out_of_the_index_alone_is_found_again(filled: Store, reader: Reader) -> None:
    """Its records stand until the forgetting is asked for again: whoever searches must not believe that they are gone."""
    assert filled.catch_up(10)
    files = [item.sequence for item in reader.items("default") if item.session == "files"]  # type: ignore[union-attr]
    begin_erasing(filled)
    filled.forget_words(files, wipe=True)
    assert _found(reader, "snake_case_names") == [] and check_search(filled.path) == []
    assert resume(filled)
    assert _found(reader, "snake_case_names") == ["files"] and check_search(filled.path) == []
    filled.forget_words(files, wipe=True)
    assert b"snake" not in index_path(filled.path).read_bytes()

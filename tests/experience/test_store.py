"""What is stored comes back exactly, once, and in order."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.errors import BadRequest, Conflict, NotFound, StorageError
from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.store import Store
from daemon.records import Inference, JSONObject, Message, Sampling, Status, TokenTrace, Usage, new_id
from tests.experience.make import as_it_came, assistant, inference, report, size_bytes, system, user

TOOLS: JSONObject = {"tools": [{"type": "function", "function": {"name": f"tool{n}", "description": "words " * 40}} for n in range(8)]}


def _full() -> Inference:
    messages: list[Message] = [
        system("Be brief. " * 200),
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look: \ud800 ünïcode \u0000"}, {"type": "image_url", "image_url": {"url": "data:,"}}],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "a.py"},
    ]
    return replace(
        inference(
            messages, {"role": "assistant", "content": "Done.", "reasoning_content": "short"}, effective=[system("prefix"), *messages]
        ),
        lora_id="f" * 64,
        sampling=Sampling(temperature=0.2, top_k=40, seed=7, stop=("END", "\n\n"), logit_bias=((7, -100.0), (9, 2.5))),
        usage=Usage(700, 12, 640),
        tokens=TokenTrace(tuple(range(700)), (5, 70_000, 9), (-0.5, -1.25, 0.0)),
        request={**TOOLS, "response_format": {"type": "json_object"}},
        tags={"client": "pi"},
        error="late",
        note="a call could not be read",
        cache_miss="evicted",
        status=Status.ABORTED,
        first_token_ms=12.5,
        total_ms=321.0987654321,
    )


def test_a_record_comes_back_as_it_was(store: Store, reader: Reader) -> None:
    record = _full()
    sequence = store.append(record).result(10)
    assert reader.inference(record.id) == replace(record, sequence=sequence)


def test_an_unknown_receipt_is_said_to_be_unknown(store: Store, reader: Reader) -> None:
    with pytest.raises(NotFound, match="rec_none"):
        reader.inference("rec_none")
    with pytest.raises(NotFound):
        reader.report("rep_none")
    with pytest.raises(NotFound):
        reader.session("nobody")


def test_the_same_receipt_twice_is_stored_once(store: Store, reader: Reader) -> None:
    record = _full()
    assert store.append(record).result(10) == store.append(record).result(10)
    with pytest.raises(Conflict):
        store.append(replace(record, reply=assistant("other"))).result(10)
    assert reader.counts("default").inferences == 1


def test_reports_find_their_turns_and_retries_are_safe(store: Store, reader: Reader) -> None:
    first, second = inference(), inference([user("again")])
    store.append(first).result(10)
    store.append(second).result(10)
    verdict = report(first, second, first, score=0.5, feedback={"correction": "fix: it", "note": "n"}, report_id="mine")
    sequence = store.append_report(verdict).result(10)
    assert store.append_report(replace(verdict, created_at=1.0)).result(10) == sequence  # a retry is made later
    stored = reader.report("mine")
    assert (stored.references, stored.score, stored.correction) == ((first.id, second.id), 0.5, "fix: it")
    assert reader.reports_for(second.id) == [stored]
    with pytest.raises(Conflict, match="mine"):
        store.append_report(replace(verdict, score=0.25)).result(10)
    with pytest.raises(Conflict):
        store.append_report(replace(verdict, id=first.id)).result(10)
    with pytest.raises(BadRequest, match="no record rec_x"):
        store.append_report(replace(verdict, id="other", references=("rec_x",))).result(10)
    with pytest.raises(NotFound):
        reader.report("other")


def test_a_report_cannot_speak_of_another_scenarios_record(store: Store) -> None:
    record = inference(scenario="pi")
    store.append(record).result(10)
    with pytest.raises(BadRequest):
        store.append_report(replace(report(record, score=1.0), scenario="default")).result(10)


def test_one_bad_write_does_not_take_the_others_with_it(store: Store, reader: Reader) -> None:
    good = [inference([user(f"q{n}")], session=f"s{n}") for n in range(30)]
    bad = report(score=1.0)
    futures = []
    for record in good:
        futures.append(store.append(record))
        failing = store.append_report(replace(bad, id=new_id("rep"), references=("rec_missing",)))
    for future in futures:
        future.result(10)
    with pytest.raises(BadRequest):
        failing.result(10)
    with pytest.raises(StorageError, match="could not be written"):  # a bug of ours
        store.execute(lambda connection: 1 / 0).result(10)
    assert reader.counts("default").inferences == 30
    assert [item.id for item in reader.items("default")] == [record.id for record in good]


def test_the_same_receipt_twice_in_one_commit_costs_the_others_nothing(store: Store, reader: Reader) -> None:
    first, other = _full(), inference([user("other")], session="s2")
    go = threading.Event()
    store.execute(lambda connection: go.wait(10))
    futures = [store.append(record) for record in (first, other, first, replace(first, reply=assistant("else")))]
    go.set()
    assert [future.result(10) for future in futures[:3]] == [1, 2, 1]
    with pytest.raises(Conflict):
        futures[3].result(10)
    assert [summary.turns for summary in reader.sessions()] == [1, 1]
    assert check(store.path) == []


def test_what_is_erased_is_forgotten_by_the_writer(store: Store, reader: Reader) -> None:
    """The same conversation after it: its messages, tools and session are there again, whole."""
    record = _full()
    store.append(record).result(10)

    def erase(connection: sqlite3.Connection) -> None:
        for table in ("inferences", "records", "sessions"):
            connection.execute(f"DELETE FROM {table}")
        while connection.execute("DELETE FROM messages WHERE id NOT IN (SELECT parent FROM messages WHERE parent IS NOT NULL)").rowcount:
            pass
        connection.execute("DELETE FROM blobs")

    store.erase(erase).result(10)
    again = replace(record, id=new_id("rec"))
    sequence = store.append(again).result(10)
    assert sequence == 2  # the stream only grows
    assert reader.inference(again.id) == replace(again, sequence=sequence)
    assert [summary.turns for summary in reader.sessions()] == [1]
    assert check(store.path) == []


def test_the_stream_is_paged_in_order(store: Store, reader: Reader) -> None:
    records = [inference([user(f"q{n}")]) for n in range(5)]
    for record in records:
        store.append(record)
    store.append_report(report(records[0], score=1.0)).result(10)
    first = reader.items("default", limit=4)
    rest = reader.items("default", after_sequence=first[-1].sequence)
    assert [item.sequence for item in (*first, *rest)] == [1, 2, 3, 4, 5, 6]
    assert [item.sequence for item in reader.items("default", kind="report")] == [6]
    assert len(reader.items("default", kind="inference")) == 5
    assert reader.items("nowhere") == []


def test_imports_are_kept_as_they_came(store: Store, reader: Reader) -> None:
    payload: JSONObject = {"messages": [user("x")], "n": 1}
    assert store.append_imported([as_it_came("imp", "log", payload)]).result(10) == [True]
    assert store.append_imported([as_it_came("imp", "log", payload)]).result(10) == [False]
    with pytest.raises(Conflict):
        store.append_imported([as_it_came("imp", "log", {})]).result(10)
    with pytest.raises(Conflict):
        store.append_imported([as_it_came("a", "train", {}), as_it_came("imp", "train", {})]).result(10)
    assert [record.payload for record in reader.imported("default")] == [payload]  # nothing of the failed batch
    assert reader.items("default") == []


def test_an_imported_conversation_is_stored_once_with_its_feedback(store: Store, reader: Reader) -> None:
    turn = inference([user("old question")], "old reply", session="imported")
    scored = report(turn, score=1.0, report_id="rep_old")
    assert store.append_imported([turn, scored]).result(10) == [True, True]
    later = replace(turn, created_at=turn.created_at + 5, session="elsewhere")  # the same content, read again
    assert store.append_imported([later, scored]).result(10) == [False, False]
    assert store.resolve_session("default", None, [*turn.messages, turn.reply, user("and now?")]).session == "imported"
    assert [len(turn.reports) for turn in reader.session("imported").turns] == [1]
    with pytest.raises(Conflict):
        store.append_imported([inference([user("new")]), replace(turn, reply={"role": "assistant", "content": "other"})]).result(10)
    with pytest.raises(BadRequest):
        store.append_imported([inference([user("new")]), replace(scored, id="rep_b", references=("rec_none",))]).result(10)
    assert reader.counts("default").inferences == 1


def test_sessions_are_listed_newest_first(store: Store, reader: Reader) -> None:
    for name in ("a", "b", "c"):
        store.append(inference([system("sys"), user(f"Question  {name}\nmore")], session=name))
    again = inference([user("next")], session="a", release_id="r2")
    store.append(again)
    store.append_report(report(again, score=1.0)).result(10)
    summaries = reader.sessions("default")
    assert [summary.id for summary in summaries] == ["a", "c", "b"]
    newest = summaries[0]
    assert (newest.title, newest.turns, newest.reports, newest.releases) == ("Question a more", 2, 1, ("r1", "r2"))
    assert newest.last_receipt == again.id == reader.last_receipt("default")
    assert [summary.id for summary in reader.sessions(limit=1, before=newest.last_sequence)] == ["c"]
    assert [summary.id for summary in reader.sessions(q="question B")] == ["b"]
    view = reader.session("a")
    assert [turn.inference.id for turn in view.turns][-1] == again.id
    assert [(len(turn.reports), turn.signals) for turn in view.turns] == [(0, ()), (1, ("scored",))]


def test_a_conversation_costs_its_new_messages_not_its_square(store: Store, reader: Reader) -> None:
    messages: list[Message] = [system("You are an agent. " * 300)]
    unique = 0
    tokens: tuple[int, ...] = ()
    last = inference()
    for turn in range(100):
        text = f"step {turn}: " + "".join(chr(97 + (turn * 7 + n * n * 31) % 26) for n in range(400))
        messages.append(user(text))
        tokens += tuple((turn * 131 + n * 17) % 49_000 for n in range(200))
        last = inference(messages, f"reply {turn} {text[::-1]}", tokens=TokenTrace(tokens, (1, 2), (0.0, -1.0)), request=TOOLS)
        store.append(last)
        messages.append(last.reply)
        unique += 2 * len(text) + 400
    store.close()
    assert size_bytes(store.path) < 5 * unique  # resent whole, it would be about 50 times
    assert reader.inference(last.id).messages == last.messages
    assert reader.inference(last.id).tokens == last.tokens


def test_a_picture_is_stored_once_wherever_its_message_comes_again(store: Store, reader: Reader) -> None:
    """Resent with each turn, on a branch behind another history, and in another session."""
    pixels = Random(0).randbytes(150_000).hex()  # base64 would pack no better
    picture: Message = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixels}"}}]}
    sent = [
        inference([picture], "a cat", session="one"),
        inference([picture, assistant("a cat"), user("sure?")], "yes", session="one"),
        inference([user("look"), assistant("where?"), picture], "a dog", session="one"),
        inference([system("s"), picture, assistant("a cat"), picture], "the same", session="two"),
    ]
    for record in sent:
        store.append(record).result(10)
    for record in sent:
        assert reader.inference(record.id).messages == record.messages
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        kept = connection.execute("SELECT total(length(body)) FROM messages UNION ALL SELECT total(length(data)) FROM blobs").fetchall()
    assert 150_000 < sum(size for (size,) in kept) < 1.2 * 150_000


def test_scenarios_are_created_once_and_archived(store: Store, reader: Reader) -> None:
    assert store.create_scenario("pi").result(10) is True
    assert store.create_scenario("pi").result(10) is False
    store.append(inference(scenario="pi")).result(10)
    store.archive_scenario("pi").result(10)
    assert reader.scenarios() == [] and reader.scenarios(archived=True) == ["pi"]
    assert reader.sessions() == []
    with pytest.raises(NotFound):
        store.archive_scenario("none").result(10)
    assert store.create_scenario("pi").result(10) is True
    assert reader.scenarios() == ["pi"] and [one.scenario for one in reader.sessions()] == ["pi"]


def test_everything_is_there_after_closing_and_opening(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "experience.db"
    first = Store.open(path)
    record = _full()
    pending = first.append(record)
    first.close()  # writes what waits
    assert pending.done()
    second = Store.open(path)
    try:
        match = second.resolve_session("default", None, [*record.messages, record.reply, user("and now?")])
        assert (match.session, match.is_new) == ("s1", False)
        assert path.stat().st_mode & 0o077 == 0
    finally:
        second.close()


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec=None), max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_messages = st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "name"]), _json, max_size=4), max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(_messages, _messages, st.dictionaries(st.text(max_size=4), _json, max_size=3), st.lists(st.integers(0, 200_000), max_size=600))
def test_whatever_a_client_sends_comes_back_exactly(
    store: Store, reader: Reader, messages: list[Message], more: list[Message], request: JSONObject, ids: list[int]
) -> None:
    trace = TokenTrace(tuple(ids), tuple(ids[:3]), tuple(-0.5 for _ in ids[:3]))
    first = inference(messages, more[0] if more else {}, request=request, tokens=trace)
    second = inference([*messages, first.reply, *more], {"role": "assistant"}, effective=more, tokens=trace)
    for record in (first, second):
        sequence = store.append(record).result(10)
        expected = replace(record, sequence=sequence, effective_messages=record.effective_messages or None)
        assert reader.inference(record.id) == expected


def test_a_secret_among_the_tools_is_hidden_each_time(store: Store, reader: Reader) -> None:
    secret = "ghp_0123456789abcdefghij0123456789abcdef"
    for hidden, word in enumerate(["none", secret, secret, "none"]):
        record = inference([user(f"q{hidden}")], request={"tools": [{"name": "push", "description": f"with {word}"}]})
        store.append(record).result(10)
        stored = reader.inference(record.id)
        assert secret not in str(stored.request)
        assert bool(stored.redactions) == (word == secret)

"""What a recipe gets to see: each turn once, with its feedback, what followed, and how stale it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from daemon.experience.operations import OperationLog, ReleaseFacts
from daemon.experience.reader import Reader
from daemon.experience.runs import MAX_ATTEMPTS, RunStatus, RunStore
from daemon.experience.store import Store
from daemon.experience.stream import ExperienceStream
from daemon.records import Message, Status, TurnKind
from tests.experience.make import assistant, inference, report, system, user


@pytest.fixture
def stream(store: Store) -> Iterator[ExperienceStream]:
    with ExperienceStream.open(store.path, "default") as opened:
        yield opened


def test_turns_carry_what_followed_them(store: Store, stream: ExperienceStream) -> None:
    opening: list[Message] = [system("s"), user("list files")]
    called: Message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    }
    # the client sends our reply back a little different, as clients do
    echoed = {**called, "content": ""}
    result: Message = {"role": "tool", "tool_call_id": "c", "content": "a.py"}
    second = [*opening, echoed, result]
    third = [*second, assistant("one file"), user("no, two")]
    for messages, reply in ((opening, called), (second, assistant("one file")), (third, assistant("two files"))):
        store.append(inference(messages, reply)).result(10)
    turns = stream.all()
    assert [turn.next_state for turn in turns] == [(result,), (user("no, two"),), ()]


def test_a_compaction_ends_what_followed(store: Store, stream: ExperienceStream) -> None:
    store.append(inference([user("long story")], "yes"))
    store.append(inference([user("summary of all"), assistant("ok"), user("go on")], "done")).result(10)
    assert [turn.next_state for turn in stream.all()] == [(), ()]


def test_retries_count_once(store: Store, stream: ExperienceStream) -> None:
    failed = inference([user("q")], "", status=Status.ERROR)
    partial = inference([user("q")], "par", status=Status.ABORTED)
    first, last = inference([user("q")], "one"), inference([user("q")], "two")
    for record in (failed, partial, first, last):
        store.append(record).result(10)
    turns = stream.all()
    assert [(turn.receipt, turn.retries, turn.signals) for turn in turns] == [(last.id, 2, ("retried",))]
    store.append_report(report(first, score=-1.0)).result(10)
    assert [turn.receipt for turn in stream.all()] == [first.id]  # the one that the user spoke of


def test_the_same_question_in_two_sessions_is_two_turns(store: Store, stream: ExperienceStream) -> None:
    store.append(inference([user("q")], session="a"))
    store.append(inference([user("q")], session="b")).result(10)
    assert len(stream.all()) == 2


def test_asides_and_other_scenarios_stay_out(store: Store, stream: ExperienceStream) -> None:
    store.append(inference([system("title"), user("q")], kind=TurnKind.ASIDE))
    store.append(inference(scenario="pi")).result(10)
    assert stream.all() == []


def test_feedback_is_the_latest_word(store: Store, stream: ExperienceStream) -> None:
    record = inference()
    store.append(record)
    store.append_report(report(record, score=0.0, feedback="meh"))
    store.append_report(report(record, score=1.0, feedback={"correction": "fix: a"}))
    store.append_report(report(record, feedback="thanks")).result(10)
    turn = stream.all()[0]
    assert (turn.score, turn.correction, len(turn.reports)) == (1.0, "fix: a", 3)
    assert turn.signals == ("scored", "corrected", "commented")
    found = stream.turn(record.id)
    assert found == turn and stream.turn("rec_none") is None


def test_consumed_turns_are_old_until_somebody_speaks_of_them_again(store: Store, stream: ExperienceStream, reader: Reader) -> None:
    first, second = inference([user("1")]), inference([user("2")])
    store.append(first)
    store.append(second)
    release = ReleaseFacts("r2", "training", None, (first.id,), time.time())
    OperationLog(store, reader).published("default", release, "r1").result(10)
    assert [turn.receipt for turn in stream.new()] == [second.id]
    assert len(stream.all()) == 2
    store.append_report(replace(report(first, score=-1.0), created_at=time.time() + 1)).result(10)
    assert [turn.receipt for turn in stream.new()] == [first.id, second.id]


def test_a_record_that_led_nowhere_three_times_triggers_no_more(store: Store, stream: ExperienceStream, reader: Reader) -> None:
    record = inference()
    store.append(record).result(10)
    runs = RunStore(store, reader)
    for attempt in range(MAX_ATTEMPTS):
        assert len(stream.new()) == 1, attempt
        run = runs.create("default", "sft").result(10)
        runs.add_records(run.id, [record.id])
        runs.finish(run.id, RunStatus.DONE, verdict="rejected").result(10)
    assert stream.new() == []
    store.append_report(replace(report(record, score=1.0), created_at=time.time() + 1)).result(10)
    assert len(stream.new()) == 1


def test_lag_counts_different_loras_since(store: Store, stream: ExperienceStream, reader: Reader) -> None:
    log = OperationLog(store, reader)

    def publish(number: int, lora: str | None) -> None:
        log.published("default", ReleaseFacts(f"r{number}", "training", lora, (), 1000.0 + number), before=None).result(10)

    publish(1, None)
    store.append(inference([user("base")], release_id="r1"))
    publish(2, "L2")
    store.append(inference([user("two")], release_id="r2", lora_id="L2"))
    publish(3, "L3")
    publish(4, "L2")  # a rollback to the same weights adds none
    publish(5, "L2")  # a change of the harness alone neither
    store.append(inference([user("two again")], release_id="r5", lora_id="L2"))
    store.append(inference([user("a session that stayed on r1")], release_id="r1")).result(10)
    assert [turn.lag for turn in stream.all()] == [2, 1, 0, 2]


def test_the_newest_turns_are_kept_when_there_are_too_many(store: Store, stream: ExperienceStream) -> None:
    records = [inference([user(f"q{n}")], session=f"s{n % 3}") for n in range(9)]
    for record in records:
        store.append(record)
    store.execute(lambda connection: None).result(10)
    assert [turn.receipt for turn in stream.all(limit=4)] == [record.id for record in records[-4:]]

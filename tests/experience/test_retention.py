"""Old sessions make room, whole; what releases need, what was said of late and what is in use stays."""

from __future__ import annotations

import sqlite3
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from daemon.experience.check import check
from daemon.experience.reader import Reader
from daemon.experience.removal.retention import Limits, Removed, keep_within, read_removed, used_bytes
from daemon.experience.runs import RunStore
from daemon.experience.store import Store
from daemon.harness_tree import HarnessTree
from daemon.records import Inference, TokenTrace
from daemon.retention import keep_once
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import running
from tests.experience.make import inference, report, system, user

DAY = 86400.0
NOW = 2_000_000_000.0
RULES = system("You are helpful. " * 100)


def _session(store: Store, name: str, days_old: float, turns: int = 3, wire: str = "chat") -> list[Inference]:
    made: list[Inference] = []
    for turn in range(turns):
        history = [*made[-1].messages, made[-1].reply] if made else [RULES]
        text = f"{name} {turn} " + " ".join(str(hash((name, turn, word)) % 10**9) for word in range(300))
        record = inference([*history, user(text)], f"reply {name} {turn}", session=name, created_at=NOW - days_old * DAY)
        made.append(replace(record, wire=wire, tokens=TokenTrace(tuple(range(600)), (1,), (-1.0,))))
        store.append(made[-1]).result(10)
    return made


def _names(reader: Reader) -> set[str]:
    return {summary.id for summary in reader.sessions()}


def test_what_is_older_than_the_limit_goes_and_the_rest_stays(store: Store, reader: Reader) -> None:
    needed = _session(store, "needed", 100)
    for name, days in (("old", 40), ("older", 90), ("young", 5)):
        _session(store, name, days)
    _session(store, "imported", 400, wire="import")
    read = _session(store, "being-read", 80)
    runs = RunStore(store, reader)
    runs.create("default", "sft", run_id="run_1").result(10)
    runs.add_records("run_1", [read[1].id]).result(10)
    before = reader.session("young")
    removed = keep_within(store, reader, Limits(days=30), [needed[2].id], NOW)
    assert removed == Removed(2, 6, NOW) == read_removed(reader)
    assert _names(reader) == {"needed", "young", "imported", "being-read"}
    assert reader.session("young").turns == before.turns
    assert keep_within(store, reader, Limits(days=30), [needed[2].id], NOW) == Removed()
    assert check(store.path) == []


def test_the_oldest_make_room_until_the_rest_fits(store: Store, reader: Reader) -> None:
    empty = used_bytes(reader)
    for number in range(24):
        _session(store, f"s{number:02}", 60 - number, turns=2)
    liked = reader.session("s01").turns[0].inference
    store.append_report(report(liked, score=1.0)).result(10)
    fresh = _session(store, "fresh", 0.01)
    limit = (empty + used_bytes(reader)) // 2
    keep_within(store, reader, Limits(bytes=limit), [], NOW)
    assert used_bytes(reader) <= limit
    left = sorted(_names(reader) - {"fresh"})
    assert "fresh" in _names(reader) and left and left == [f"s{number:02}" for number in range(24 - len(left), 24)], "the newest stay"
    assert len(left) >= 6, "no more goes than has to"
    assert reader.session("fresh").turns[-1].inference.messages == fresh[-1].messages
    keep_within(store, reader, Limits(bytes=1), [], NOW)
    assert _names(reader) == {"fresh"}, "what is in use stays, whatever the limit"
    assert check(store.path) == [] and read_removed(reader).sessions == 24


def test_reported_sessions_go_last(store: Store, reader: Reader) -> None:
    for number in range(6):
        turns = _session(store, f"s{number}", 20 - number)
        if number < 3:
            store.append_report(report(turns[0], score=1.0)).result(10)
    keep_within(store, reader, Limits(bytes=1), [], NOW)
    assert _names(reader) == {"s0", "s1", "s2"}


def test_records_that_come_meanwhile_are_whole(store: Store, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that go on from what is being removed, between its steps."""
    old = [_session(store, f"s{number}", 60, turns=4) for number in range(4)]
    late: list[Future[int]] = []
    plain = store.alone

    def alone(function):  # type: ignore[no-untyped-def]  # the store's own method, with a record after each step
        done = plain(function)
        start = old[len(late) % 4][3]
        record = inference([*start.messages, start.reply, user(f"late {len(late)}")], session=f"late{len(late)}", created_at=NOW)
        late.append(store.append(replace(record, tokens=start.tokens)))
        return done

    monkeypatch.setattr(store, "alone", alone)
    keep_within(store, reader, Limits(days=30), [], NOW)
    monkeypatch.undo()
    assert all(one.result(10) for one in late) and len(late) >= 4
    assert _names(reader) == {f"late{number}" for number in range(len(late))}
    for number in range(len(late)):
        turn = reader.session(f"late{number}").turns[0].inference
        assert turn.messages[:-1] == (*old[number % 4][3].messages, old[number % 4][3].reply)
        assert turn.tokens == old[number % 4][3].tokens
    assert check(store.path) == []


def test_what_a_crash_left_over_is_swept_by_the_next_round(store: Store, reader: Reader) -> None:
    _session(store, "old", 60)
    young = _session(store, "young", 1)
    with sqlite3.connect(store.path) as connection:  # as if it died between the records and what they held
        connection.execute("DELETE FROM inferences WHERE session = (SELECT id FROM sessions WHERE key = 'old')")
        connection.execute("DELETE FROM records WHERE sequence NOT IN (SELECT sequence FROM inferences)")
        connection.execute("DELETE FROM sessions WHERE key = 'old'")
    connection.close()
    _session(store, "older", 90)
    keep_within(store, reader, Limits(days=30), [], NOW)
    reader2 = Reader(store.path)
    assert reader2.connection().execute("SELECT count(*) FROM messages").fetchone()[0] == len(young[-1].messages) + 1
    reader2.close()


async def test_the_daemon_keeps_what_its_releases_show_and_says_what_it_removed(tmp_path: Path) -> None:
    async with running(tmp_path, settings={"storage.retention_days": 10}) as daemon:
        services = daemon.services
        kept = (await daemon.chat("shown in a release")).headers["x-reef-agent-record-id"]
        await daemon.chat("old and forgotten")
        head = services.repository.head("default")
        assert head is not None
        hints = ServingHints(demonstrations=(Demonstration(prompt="p", reply="r", source=kept),))
        tree = HarnessTree({"serving.json": hints.model_dump_json()})
        await services.publisher.publish(Draft("default", Operation.TRAINING, head.manifest.base, harness=tree), head.id)
        services.store.execute(lambda connection: connection.execute("UPDATE sessions SET updated_at = 1000").rowcount).result(10)
        removed = await keep_once(services)
        assert (removed.sessions, removed.records) == (1, 1)
        assert services.reader.inference(kept).id == kept
        status = (await daemon.owner.get("/reef/status")).json()
        assert status["retention"] | {"removed_at": 0} == {
            "limit_bytes": 20 << 30,
            "limit_days": 10.0,
            "removed_sessions": 1,
            "removed_records": 1,
            "removed_at": 0,
        }

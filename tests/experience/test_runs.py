"""What a person sees of runs, and how records are taken and set free."""

from __future__ import annotations

import pytest

from daemon.errors import Conflict, NotFound
from daemon.experience.operations import OperationLog, ReleaseFacts
from daemon.experience.reader import Reader
from daemon.experience.runs import RunStatus, RunStore
from daemon.experience.store import Store


@pytest.fixture
def runs(store: Store, reader: Reader) -> RunStore:
    return RunStore(store, reader)


@pytest.fixture
def log(store: Store, reader: Reader) -> OperationLog:
    return OperationLog(store, reader)


def test_a_run_tells_its_story(runs: RunStore) -> None:
    run = runs.create("default", "sft", trigger="owner", config={"lr": 1e-4}).result(10)
    assert runs.get(run.id) == run
    runs.event(run.id, {"phase": "train"})
    assert runs.event(run.id, {"step": 1, "loss": 2.5}).result(10) == 2
    assert runs.get(run.id).phase == "train"
    assert [event.event for event in runs.events(run.id, after=1)] == [{"step": 1, "loss": 2.5}]
    runs.finish(run.id, RunStatus.DONE, verdict="promoted", sentence="9 wins", release_id="r2").result(10)
    ended = runs.get(run.id)
    assert (ended.status, ended.verdict, ended.release_id) == (RunStatus.DONE, "promoted", "r2")
    assert ended.ended_at is not None
    with pytest.raises(Conflict, match="already ended"):
        runs.finish(run.id, RunStatus.CANCELLED).result(10)
    with pytest.raises(NotFound):
        runs.get("run_none")
    with pytest.raises(NotFound):
        runs.finish("run_none", RunStatus.DONE).result(10)


def test_runs_are_listed_newest_first(runs: RunStore) -> None:
    ids = [runs.create("default", "demos").result(10).id for _ in range(3)]
    runs.create("pi", "demos").result(10)
    assert [run.id for run in runs.list("default")] == ids[::-1]
    assert len(runs.list()) == 4
    page = runs.list("default", limit=1)
    assert [run.id for run in runs.list("default", before=page[0].started_at)] == ids[1::-1]


def test_what_a_crash_left_running_is_failed_at_start(runs: RunStore) -> None:
    run = runs.create("default", "sft").result(10)
    done = runs.create("default", "sft").result(10)
    runs.finish(done.id, RunStatus.DONE).result(10)
    assert runs.fail_unfinished("The daemon ended during the run.").result(10) == [run.id]
    assert runs.get(run.id).status is RunStatus.FAILED
    assert runs.get(done.id).status is RunStatus.DONE


def test_attempts_count_ended_runs_but_not_cancelled_ones(runs: RunStore) -> None:
    for status in (RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED):
        run = runs.create("default", "sft").result(10)
        runs.add_records(run.id, ["rec_a"])
        runs.add_records(run.id, ["rec_a", "rec_b"]).result(10)
        assert runs.records(run.id) == {"rec_a", "rec_b"}
        runs.finish(run.id, status).result(10)
    still = runs.create("default", "sft").result(10)
    runs.add_records(still.id, ["rec_a"]).result(10)
    assert runs.attempts("rec_a") == 2
    assert runs.attempts("rec_z") == 0


def _release(number: int, operation: str, lora: str | None, consumed: str = "", restores: str | None = None) -> ReleaseFacts:
    return ReleaseFacts(f"r{number}", operation, lora, tuple(consumed.split()), 1000.0 + number, restores)


def test_a_rollback_sets_the_records_free_that_it_takes_back(runs: RunStore, log: OperationLog) -> None:
    chain = [_release(1, "creation", None), _release(2, "training", "L2", "a b"), _release(3, "training", "L3", "c")]
    log.rebuild("default", chain).result(10)
    assert runs.consumed("default") == {"a", "b", "c"}
    chain.append(_release(4, "rollback", "L2", restores="r2"))
    log.rebuild("default", chain).result(10)
    assert runs.consumed("default") == {"a", "b"}
    chain.append(_release(5, "undo", "L3", restores="r3"))
    log.rebuild("default", chain).result(10)
    assert runs.consumed("default") == {"a", "b", "c"}
    chain.append(_release(6, "promote", "L9", "d", restores="r99"))  # a held one, not of the chain
    log.rebuild("default", chain).result(10)
    assert runs.consumed("default") == {"a", "b", "c", "d"}
    chain.append(_release(7, "rollback", None, restores="r1"))
    log.rebuild("default", chain).result(10)
    assert runs.consumed("default") == frozenset()


def test_the_log_is_repaired_from_the_chain_and_only_once(log: OperationLog, runs: RunStore) -> None:
    first, second = _release(1, "creation", None), _release(2, "training", "L2", "a")
    log.published("default", first, before=None).result(10)
    # a crash between moving the head and writing the log: r2 is in git, not here
    assert log.rebuild("default", [first, second]).result(10) == 1
    assert log.rebuild("default", [first, second]).result(10) == 0
    entries = log.list("default")
    assert [(entry.operation, entry.before, entry.after) for entry in entries] == [("training", "r1", "r2"), ("creation", None, "r1")]
    assert entries[0].detail == {"repaired": True}
    assert [served.lora_id for served in log.lora_history("default")] == [None, "L2"]
    assert runs.consumed("default") == {"a"}
    assert runs.consumed("pi") == frozenset()


def test_the_operation_log_is_paged(log: OperationLog) -> None:
    for number in range(3):
        log.append("default", "settings", None, None, "owner", {"n": number}).result(10)
    newest = log.list(limit=1)
    assert newest[0].detail == {"n": 2} and newest[0].who == "owner"
    assert [entry.detail["n"] for entry in log.list(before=newest[0].id)] == [1, 0]

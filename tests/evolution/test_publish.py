"""Publishing: the new release serves, or the old one does, whatever fails on the way."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest

from daemon.errors import Conflict, DataError, EngineError, NotFound, StorageError
from daemon.serving.snapshot import Snapshot
from daemon.versions.manifest import Operation
from daemon.versions.repository import Repository
from tests.evolution.parts import parts
from tests.versions.parts import lora_folder


async def test_a_published_release_serves_and_is_logged(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        folder = lora_folder(tmp_path / "lora")
        release = await bench.publisher.publish(bench.draft("Be brief.", folder), "r1")
        assert (bench.head, bench.served) == ("r2", "r2")
        head = bench.serving.head("default")
        assert head is not None
        assert head.hints.system_prefix == "Be brief."
        assert head.lora is not None
        assert head.lora.id in bench.engine.loaded
        operation = bench.log.list("default")[0]
        assert (operation.operation, operation.before, operation.after, operation.who) == ("training", "r1", "r2", "test")
        assert bench.runs.consumed("default") == {"rec_a"}
        assert bench.log.lora_history("default")[-1].lora_id == release.manifest.lora_id
        smoke = bench.engine.requests[-1]
        assert smoke.lora is not None
        assert smoke.messages[0] == {"role": "system", "content": "Be brief."}


async def test_a_stale_head_is_refused_and_nothing_changes(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        await bench.publisher.publish(bench.draft("one"), "r1")
        with pytest.raises(Conflict, match="r2 is the head"):
            await bench.publisher.publish(bench.draft("two"), "r1")
        assert (bench.head, bench.served) == ("r2", "r2")


async def test_of_two_at_once_one_wins(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        both = [bench.publisher.publish(bench.draft(text), "r1") for text in ("one", "two")]
        results = await asyncio.gather(*both, return_exceptions=True)
        assert sum(isinstance(result, Conflict) for result in results) == 1
        assert bench.head == bench.served


async def test_a_lora_that_does_not_load_never_serves_and_leaves_no_weights(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        folder = lora_folder(tmp_path / "lora")
        (folder / "lora.gguf").write_bytes(b"PICKLE" * 100)
        with pytest.raises(DataError):
            await bench.publisher.publish(bench.draft("x", folder), "r1")
        assert (bench.head, bench.served) == ("r1", "r1")
        assert [path for path in (bench.home.versions / "lfs" / "objects").rglob("*") if path.is_file()] == []


async def test_an_engine_that_fails_the_smoke_test_keeps_the_old_release(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        bench.engine.fail_next = EngineError("crashed")
        with pytest.raises(EngineError):
            await bench.publisher.publish(bench.draft("x"), "r1")
        assert (bench.head, bench.served) == ("r1", "r1")
        await bench.publisher.publish(bench.draft("x"), "r1")
        assert bench.head == bench.served != "r1"


async def test_a_log_that_cannot_be_written_does_not_take_the_release_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with parts(tmp_path / "home") as bench:

        def full(*arguments: object) -> None:
            raise StorageError("The disk is full.")

        monkeypatch.setattr(bench.log, "published", full)
        await bench.publisher.publish(bench.draft("x"), "r1")
        assert (bench.head, bench.served) == ("r2", "r2")


async def test_rollback_undo_and_back_again(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        publisher = bench.publisher
        folder = lora_folder(tmp_path / "lora")
        await publisher.publish(bench.draft("one", folder), "r1")
        back = await publisher.rollback("default", "r1", "r2", "owner")
        assert back.manifest.operation is Operation.ROLLBACK
        head = bench.serving.head("default")
        assert head is not None
        assert head.lora is None
        assert head.hints.system_prefix == ""
        assert bench.runs.consumed("default") == frozenset()  # its experience is free again
        undone = await publisher.undo("default", None, "owner")
        head = bench.serving.head("default")
        assert head is not None
        assert head.hints.system_prefix == "one"
        assert head.release_id == undone.id == bench.head
        assert bench.runs.consumed("default") == {"rec_a"}
        with pytest.raises(Conflict, match="nothing would change"):
            await publisher.rollback("default", "r2", None, "owner")
        with pytest.raises(NotFound):
            await publisher.rollback("default", "r99", None, "owner")
        with pytest.raises(Conflict):
            await publisher.rollback("default", "r1", "r2", "owner")  # the caller saw an older head


async def test_a_held_candidate_waits_and_can_be_promoted(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        folder = lora_folder(tmp_path / "lora")
        held = await bench.publisher.hold(bench.draft("held", folder))
        assert (bench.head, bench.served) == ("r1", "r1")
        promoted = await bench.publisher.promote("default", held.id, "r1", "owner")
        head = bench.serving.head("default")
        assert head is not None
        assert head.hints.system_prefix == "held"
        assert head.lora is not None
        assert promoted.id == bench.head == bench.served


async def test_a_candidate_that_is_held_after_the_head_moved_names_what_it_was_compared_with(tmp_path: Path) -> None:
    """Else a person would promote it as if it had been judged against the new head, and lose what that one changed."""
    async with parts(tmp_path / "home") as bench:
        judged = dataclasses.replace(bench.draft("judged against r1"), compared_with="r1")
        await bench.publisher.publish(bench.draft("a person was faster"), "r1")
        held = await bench.publisher.hold(judged)
        assert held.manifest.parent_release_id == "r1"
        with pytest.raises(Conflict, match="was evaluated against r1; r2 serves something else"):
            await bench.publisher.promote("default", held.id, "r2", "owner")
        await bench.publisher.rollback("default", "r1", "r2", "owner")
        promoted = await bench.publisher.promote("default", held.id, None, "owner")  # what it was judged against serves again
        assert promoted.id == bench.head == bench.served
        with pytest.raises(Conflict, match="r5 is the head"):
            bench.repository.advance(bench.repository.prepare(dataclasses.replace(judged)), "r5")


async def test_a_rejected_candidate_leaves_a_trace_without_weights(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        rejected = await bench.publisher.reject(bench.draft("worse", lora_folder(tmp_path / "lora")))
        assert bench.served == "r1"
        assert [release.id for release in bench.repository.rejected("default")] == [rejected.id]
        assert [path for path in (bench.home.versions / "lfs" / "objects").rglob("*") if path.is_file()] == []
        assert bench.log.list("default")[0].operation == "rejected"


async def test_a_request_in_flight_keeps_its_release_across_a_publication(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        lease = await bench.serving.admit("default", "session-1")
        await bench.publisher.publish(bench.draft("new"), "r1")
        assert lease.snapshot.release_id == "r1"
        lease.release()
        again = await bench.serving.admit("default", "session-1")
        assert again.snapshot.release_id == "r1"  # a session under way stays
        other = await bench.serving.admit("default", "session-2")
        assert other.snapshot.release_id == "r2"
        again.release()
        other.release()


async def test_where_another_process_was_faster_its_release_serves_and_the_loser_is_told(tmp_path: Path) -> None:
    async with parts(tmp_path / "home") as bench:
        other = Repository(bench.home.versions)
        foreign = await asyncio.to_thread(other.publish, bench.draft("theirs"), "r1")
        with pytest.raises(Conflict, match="r2 is the head of default now; you saw r1"):
            await bench.publisher.publish(bench.draft("ours"), "r1")
        assert (bench.head, bench.served) == (foreign.id, foreign.id)
        assert [row.after for row in bench.log.list("default")] == ["r2", "r1"] and bench.runs.consumed("default") == {"rec_a"}
        smoke = bench.publisher._smoke

        async def overtaken(snapshot: Snapshot) -> None:
            await smoke(snapshot)
            await asyncio.to_thread(other.publish, bench.draft("theirs again"), "r2")

        bench.publisher._smoke = overtaken  # type: ignore[method-assign]
        with pytest.raises(Conflict, match="is the head of default now; you saw r2"):
            await bench.publisher.rollback("default", "r1", "r2", "owner")
        assert bench.head == bench.served != "r2"
        head = bench.serving.head("default")
        assert head is not None and head.hints.system_prefix == "theirs again"
        other.close()

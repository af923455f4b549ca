"""Who is answered by which release, and when a LoRA may go."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.engine.base import LoRA
from daemon.errors import DataError, NotFound
from daemon.serving.serving import Serving
from daemon.serving.snapshot import ReleaseSource, Snapshot
from tests.engine.fake import ScriptedEngine


class Known(ReleaseSource):
    def __init__(self, *snapshots: Snapshot) -> None:
        self._snapshots = {snapshot.release_id: snapshot for snapshot in snapshots}

    async def snapshot(self, scenario: str, release_id: str) -> Snapshot:
        if release_id not in self._snapshots:
            raise NotFound(f"There is no release {release_id}.")
        return self._snapshots[release_id]


def lora(folder: Path, name: str) -> LoRA:
    path = folder / f"{name}.gguf"
    path.write_bytes(b"GGUF" + name.encode())
    return LoRA(name * 8, path)


async def test_a_session_keeps_its_release_until_it_is_idle_and_new_ones_take_the_head(tmp_path: Path) -> None:
    engine, old = ScriptedEngine(), Snapshot("s", "r1", lora(tmp_path, "a"))
    serving = Serving(engine, Known(old), idle_s=1000)
    await serving.install(old)
    (await serving.admit("s", "one")).release()
    running = await serving.admit("s", "two")
    await serving.install(Snapshot("s", "r2", lora(tmp_path, "b")))
    assert running.snapshot.release_id == "r1"
    again, fresh = await serving.admit("s", "one"), await serving.admit("s", "three")
    assert (again.snapshot.release_id, fresh.snapshot.release_id) == ("r1", "r2")
    assert set(engine.loaded) == {"a" * 8, "b" * 8}
    for lease in (running, again, fresh):
        lease.release()
    serving.idle_s = -1
    await serving.sweep()
    assert set(engine.loaded) == {"b" * 8}, "nobody uses the old LoRA any more"
    assert (await serving.admit("s", "one")).snapshot.release_id == "r2"


async def test_a_request_in_flight_keeps_its_lora_loaded_though_its_session_is_forgotten(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    serving = Serving(engine, Known(), idle_s=-1)
    await serving.install(Snapshot("s", "r1", lora(tmp_path, "a")))
    lease = await serving.admit("s", "one")
    await serving.install(Snapshot("s", "r2"))
    assert "a" * 8 in engine.loaded
    lease.release()
    lease.release()  # twice does no harm
    await serving.sweep()
    assert not engine.loaded and serving.activity.in_flight == 0


async def test_a_request_of_before_an_update_does_not_end_the_hold_of_one_after_it() -> None:
    serving = Serving(ScriptedEngine(), Known(), idle_s=-1)
    await serving.install(Snapshot("s", "r1"))
    before = await serving.admit("s", "one")
    serving.update_session("s", "one")
    await serving.install(Snapshot("s", "r2"))
    after = await serving.admit("s", "one")
    before.release()
    await serving.install(Snapshot("s", "r3"))
    assert (await serving.admit("s", "one")).snapshot.release_id == "r2" == after.snapshot.release_id


async def test_a_lora_that_does_not_fit_leaves_the_head_as_it_was(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    serving = Serving(engine, Known(), idle_s=10)
    await serving.install(Snapshot("s", "r1"))
    bad = tmp_path / "bad.gguf"
    bad.write_text("text")
    with pytest.raises(DataError):
        await serving.install(Snapshot("s", "r2", LoRA("c" * 8, bad)))
    assert (await serving.admit("s", "one")).snapshot.release_id == "r1"


async def test_a_pinned_release_is_loaded_for_one_request_and_changes_nothing_for_the_session(tmp_path: Path) -> None:
    engine, old = ScriptedEngine(), Snapshot("s", "r1", lora(tmp_path, "a"))
    serving = Serving(engine, Known(old), idle_s=10)
    await serving.install(Snapshot("s", "r2"))
    lease = await serving.admit("s", "one", pinned="r1")
    assert "a" * 8 in engine.loaded
    lease.release()
    assert (await serving.admit("s", "one")).snapshot.release_id == "r2"
    with pytest.raises(NotFound):
        await serving.admit("s", "one", pinned="r9")
    with pytest.raises(NotFound):
        await serving.admit("unknown", "one")


async def test_a_runs_candidate_is_found_by_that_run_alone_and_is_no_live_request(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    serving = Serving(engine, Known(), idle_s=10)
    await serving.install(Snapshot("s", "r1"))
    serving.offer("run_1", "candidate", Snapshot("s", "candidate", lora(tmp_path, "c")))
    lease = await serving.borrow("s", "candidate", "run_1")
    assert lease.snapshot.release_id == "candidate" and serving.activity.in_flight == 0
    with pytest.raises(NotFound):
        await serving.borrow("s", "candidate", "run_2")
    lease.release()
    serving.withdraw("run_1")
    await serving.sweep()
    assert not engine.loaded
    assert (await serving.borrow("s", "base")).snapshot.lora is None
    assert (await serving.borrow("s", "head")).snapshot.release_id == "r1"


async def test_a_scenario_is_idle_from_the_end_of_its_last_request(tmp_path: Path) -> None:
    serving = Serving(ScriptedEngine(), Known(), idle_s=10)
    await serving.install(Snapshot("s", "r1"))
    lease = await serving.admit("s", "one")
    assert serving.activity.idle_s("s") == 0 and serving.activity.in_flight == 1
    await serving.activity.wait_busy()
    lease.release()
    await serving.activity.wait_free()
    assert 0 < serving.activity.idle_s("s") < 5

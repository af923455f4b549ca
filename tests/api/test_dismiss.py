"""A held candidate that nobody wants is given up for good, and the log says by whom."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.evolution.replaying import PROMOTE
from daemon.experience.runs import Run, RunStatus
from daemon.versions.dismissing import dismiss
from daemon.versions.fsck import fsck
from daemon.versions.pins import pin, unpin
from daemon.versions.repository import Repository
from tests.api.test_releases import BASE, publish_hints
from tests.daemon.running import Running, running


async def _log(daemon: Running, limit: int = 1) -> list[tuple[object, ...]]:
    rows = (await daemon.client.get(f"{BASE}/commits", params={"limit": limit})).json()["commits"]
    return [(row["operation"], row["before"], row["after"], row["who"], row["detail"].get("release_id")) for row in rows]


async def test_a_held_candidate_is_given_up_and_its_trace_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        where = f"{BASE}/releases/{held}/dismiss"
        assert (await daemon.client.post(where, json={})).status_code == 403
        gone = (await daemon.owner.post(where, json={})).json()
        assert (gone["release_id"], gone["state"], gone["pending"]) == (held, "rejected", False)
        assert gone["verdict"].startswith("dismissed by owner")
        [scenario] = (await daemon.client.get("/reef/status")).json()["scenarios"]
        assert scenario["held"] == []
        assert "Be kind." in (await daemon.client.get(f"{BASE}/releases/{held}")).json()["files"]["serving.json"]
        assert await _log(daemon) == [("dismiss", "r1", "r1", "owner", held)]
        for again in (where, f"{BASE}/releases/r1/dismiss"):
            refused = await daemon.owner.post(again, json={})
            assert refused.status_code == 409 and "not held" in refused.json()["error"]["message"]
        assert (await daemon.owner.post(f"{BASE}/promote", json={"release_id": held})).status_code == 409
        assert (await daemon.owner.post(f"{BASE}/releases/r77/dismiss", json={})).status_code == 404
        assert fsck(daemon.services.repository) == []


async def test_what_is_being_evaluated_is_not_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        runner = daemon.services.runner
        run = Run("run_1", "default", "sft", RunStatus.RUNNING, "evaluate", 0.0, config={"kind": PROMOTE, "promotes": held})
        monkeypatch.setattr(type(runner), "active", run)
        refused = await daemon.owner.post(f"{BASE}/releases/{held}/dismiss", json={})
        assert refused.status_code == 409 and "reef runs run_1 --cancel" in refused.json()["error"]["hint"]
        assert [one.id for one in daemon.services.repository.held("default")] == [held]


async def test_a_promotion_of_what_was_given_up_meanwhile_changes_nothing(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        repository = daemon.services.repository
        prepare = repository.prepare

        def slow(drafted):  # type: ignore[no-untyped-def]
            prepared = prepare(drafted)
            dismiss(Repository(repository.path), "default", held, "owner")
            return prepared

        repository.prepare = slow  # type: ignore[method-assign]
        refused = await daemon.owner.post(f"{BASE}/promote", json={"release_id": held})
        assert refused.status_code == 409 and f"{held} is not held any more" in refused.json()["error"]["message"]
        assert [one.id for one in repository.chain("default")] == ["r1"]


async def test_the_next_start_adds_what_a_crash_kept_out_of_the_log(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        second = await publish_hints(daemon, "Be brief.")
    repository = Repository(tmp_path / "versions.git")
    pin(repository, "default", "r1")
    dismiss(repository, "default", held, "owner")
    repository.close()
    async with running(tmp_path) as daemon:
        expected = [("dismiss", second, second, "owner", held), ("pin", second, second, "daemon", "r1")]
        assert await _log(daemon, 2) == expected
    async with running(tmp_path) as daemon:
        assert await _log(daemon, 2) == expected, "once is enough"
    repository = Repository(tmp_path / "versions.git")
    unpin(repository, "default", "r1")
    repository.close()
    async with running(tmp_path) as daemon:
        assert await _log(daemon) == [("unpin", second, second, "daemon", "r1")]

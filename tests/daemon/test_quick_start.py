"""A start reads the heads and not the thousand releases behind them, unless the database speaks of another chain."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon import recovery
from daemon.recovery import look_at_chains
from daemon.versions.refs import head_ref
from daemon.versions.repository import Repository
from tests.api.test_releases import BASE, publish_hints
from tests.daemon.running import running
from tests.versions.parts import draft, tree


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose chains were read."""
    found: list[str] = []
    chain = Repository.chain

    def noted(self: Repository, scenario: str, limit: int | None = None):  # type: ignore[no-untyped-def]
        found.append(scenario)
        return chain(self, scenario, limit)

    monkeypatch.setattr(Repository, "chain", noted)
    return found


async def test_a_chain_that_the_database_knows_is_not_read(tmp_path: Path, reads: list[str]) -> None:
    async with running(tmp_path) as daemon:
        await publish_hints(daemon, "Be kind.")
        second = await publish_hints(daemon, "Be brief.")
    reads.clear()
    async with running(tmp_path) as daemon:
        assert reads == []
        assert (await daemon.chat("hello")).headers["x-reef-release-id"] == second
        assert (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r1"})).status_code == 200
    reads.clear()
    async with running(tmp_path):
        assert reads == [], "a rollback frees experience, and the database knows of that too"


async def test_a_chain_that_went_on_without_the_database_is_read(tmp_path: Path, reads: list[str]) -> None:
    async with running(tmp_path) as daemon:
        base = daemon.services.repository.head("default").manifest.base  # type: ignore[union-attr]
    repository = Repository(tmp_path / "versions.git")
    other = repository.publish(draft(tree(rules="- other"), base=base), "r1").id
    repository.close()
    async with running(tmp_path) as daemon:
        rows = (await daemon.client.get(f"{BASE}/commits")).json()["commits"]
        assert reads and rows[0]["after"] == other and rows[0]["detail"] == {"repaired": True}


async def test_an_earlier_release_that_is_damaged_is_told_and_the_next_start_looks_at_it(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_LOOK_AFTER_S", 0.0)
    async with running(tmp_path) as daemon:
        first = daemon.services.repository.refs.get(head_ref("default"))
        second = await publish_hints(daemon, "Be brief.")
    assert first is not None
    (tmp_path / "versions.git" / "objects" / first[:2] / first[2:]).unlink()
    async with running(tmp_path) as daemon:
        assert (await daemon.chat("hello")).headers["x-reef-release-id"] == second
        await look_at_chains(daemon.services)
        [told] = (await daemon.client.get("/reef/status")).json()["warnings"]
        assert "An earlier release of default is damaged" in told and "reef down" in told
    reads.clear()
    async with running(tmp_path):
        assert reads


async def test_the_status_is_there_though_a_release_is_lost_while_the_daemon_runs(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        commit = daemon.services.repository.release("default", held).commit_id
        (tmp_path / "versions.git" / "objects" / commit[:2] / commit[2:]).unlink()
        daemon.services.repository.read_anew()
        await daemon.client.get("/reef/status")
        status = (await daemon.client.get("/reef/status")).json()
        assert len(status["warnings"]) == 1 and "A release of default is damaged" in status["warnings"][0]
        assert [one["name"] for one in status["scenarios"]] == ["default"]
        assert (await daemon.chat("hello")).status_code == 200

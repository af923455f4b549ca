"""Room is made with the daemon up and with it down, and what serves goes on."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import httpx
import pytest

from daemon.collecting import run_gc
from daemon.errors import Conflict, NotFound
from daemon.instance import Instance
from daemon.paths import Home
from daemon.serving.releases import base_facts
from daemon.versions.fsck import fsck
from daemon.versions.repository import Repository
from tests.daemon.running import Running, running
from tests.versions.parts import draft, lora_folder, tree

BASE = "/reef/scenarios/default"


async def publish(daemon: Running, folder: Path, count: int) -> None:
    for number in range(2, count + 2):
        lora = lora_folder(folder / f"job{number}", f"weights {number}")
        (lora / "adapter_config.json").write_text(f'{{"r": {number}, "lora_alpha": 1, "target_modules": ["q_proj"]}}')
        proposed = draft(tree(rules=f"- {number}"), lora, base=base_facts(daemon.services.engine.model))
        await daemon.services.publisher.publish(proposed, f"r{number - 1}")


def age(home: Home, seconds: float) -> None:
    """As if the files were laid down earlier."""
    then = time.time() - seconds
    for path in [*home.root.rglob("*"), home.root]:
        if not path.is_symlink():
            os.utime(path, (then, then))


async def gc(daemon: Running, **body: object) -> dict[str, object]:
    answer = await daemon.owner.post("/reef/gc", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_the_owner_makes_room_and_what_serves_goes_on(tmp_path: Path) -> None:
    async with running(tmp_path / "home", settings={"storage.keep_releases": 1}) as daemon:
        await publish(daemon, tmp_path, 4)  # r2 … r5
        session = {"x-reef-tag-session": "a"}
        await daemon.chat("hello")
        assert (await daemon.client.post("/reef/gc", json={})).status_code == 403
        would = await gc(daemon, dry_run=True)
        assert would["dry_run"] is True and [item["releases"] for item in would["items"]] == [["r2"], ["r3"]]  # type: ignore[attr-defined]
        assert (await daemon.client.get(f"{BASE}/commits")).json()["commits"][0]["operation"] == "training", "nothing happened"
        done = await gc(daemon)
        assert done["items"] == would["items"]
        again = await gc(daemon)
        assert again["items"] == []
        refused = await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r3"})
        assert refused.status_code == 409 and "were collected" in refused.json()["error"]["message"]
        body = {"model": "scripted@r3", "messages": [{"role": "user", "content": "x"}]}
        pinned = await daemon.client.post("/v1/chat/completions", json=body, headers=session)
        assert pinned.status_code == 409 and "were collected" in pinned.text
        assert (await daemon.chat("on it goes")).status_code == 200
        (row, *_) = (await daemon.client.get(f"{BASE}/commits")).json()["commits"]
        assert (row["operation"], row["before"], row["after"], row["who"]) == ("gc", "r5", "r5", "owner")
        assert row["detail"]["collected"] == ["r2", "r3"]
        assert (await daemon.owner.post(f"{BASE}/undo", json={})).json()["restores"] == "r4"


async def test_a_session_under_way_keeps_the_weights_that_it_is_on(tmp_path: Path) -> None:
    async with running(tmp_path / "home", settings={"storage.keep_releases": 1}) as daemon:
        await publish(daemon, tmp_path, 1)
        headers = {"x-reef-tag-session": "long"}
        turns: list[dict[str, str]] = [{"role": "user", "content": "first"}]

        async def ask() -> httpx.Response:
            return await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": turns}, headers=headers)

        first = await ask()
        assert first.headers["x-reef-release-id"] == "r2"
        for number in (3, 4, 5):
            lora = lora_folder(tmp_path / f"job{number}", f"weights {number}")
            proposed = draft(tree(rules=f"- {number}"), lora, base=base_facts(daemon.services.engine.model))
            await daemon.services.publisher.publish(proposed, f"r{number - 1}")
        done = await gc(daemon)
        assert [item["releases"] for item in done["items"]] == [["r3"]]  # type: ignore[attr-defined]
        turns += [first.json()["choices"][0]["message"], {"role": "user", "content": "second"}]
        assert (await ask()).headers["x-reef-release-id"] == "r2"


async def test_room_is_made_with_the_daemon_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home = Home(tmp_path / "home")
    async with running(home.root) as daemon:
        await publish(daemon, tmp_path, 3)
        run = await daemon.services.publisher.hold(draft(tree(rules="- held"), base=base_facts(daemon.services.engine.model)))
        assert run.id == "r5"
    for name in ("run_old", "run_older"):
        (home.runs / name).mkdir(parents=True)
        (home.runs / name / "job.json").write_text("{}")
    home.config.write_text("storage: {keep_releases: 1}\n")
    age(home, 40 * 86400)
    with pytest.raises(NotFound, match="no releases in"):
        run_gc(Home(tmp_path / "elsewhere"), None, {}, dry_run=True)
    assert not (tmp_path / "elsewhere").exists(), "a look makes nothing"
    with Instance(home), pytest.raises(Conflict, match="already runs"):
        run_gc(home, None, {}, dry_run=True)
    capsys.readouterr()
    assert run_gc(home, None, {}, dry_run=True) == 0
    would = json.loads(capsys.readouterr().out)
    assert run_gc(home, None, {}, dry_run=False) == 0
    done = json.loads(capsys.readouterr().out)
    assert [item["kind"] for item in done["items"]] == ["weights", "copy", "run", "run"]
    assert would["items"] == done["items"] and would["freed_bytes"] == done["freed_bytes"] > 0
    assert done["items"][1]["size_bytes"] > 0, "the last name of the file gives its bytes back"
    assert len(list(home.loras.glob("*.gguf"))) == 2 and not list(home.runs.iterdir())
    repository = Repository(home.versions)
    assert [problem.message for problem in fsck(repository) if "collected" not in problem.message] == []
    async with running(home.root) as daemon:
        assert (await daemon.chat("hello")).status_code == 200
        assert (await daemon.client.get(f"{BASE}/commits")).json()["commits"][0]["operation"] == "gc"

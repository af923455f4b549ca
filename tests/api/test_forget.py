"""Forgetting through the daemon: nothing of it is left in the home, and what serves is put right."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import zlib
from pathlib import Path

import pytest

from daemon.checks import run_fsck
from daemon.errors import StorageError
from daemon.experience.removal import forget
from daemon.harness_tree import HarnessTree
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft, Release
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine
from tests.versions.parts import lora_folder

SECRET_LIFE = "My neighbour's cello is called Bartholomew and lives in the attic"
KEPT = "How do I make a good pot of strong black tea?"


async def _publish(
    daemon: Running, root: Path, records: tuple[str, ...], *, lora: str = "", shown: tuple[Demonstration, ...] = ()
) -> Release:
    services = daemon.services
    head = services.repository.head("default")
    assert head is not None
    hints = ServingHints(demonstrations=shown)
    draft = Draft(
        scenario="default",
        operation=Operation.TRAINING,
        base=head.manifest.base,
        harness=HarnessTree({"serving.json": hints.model_dump_json(indent=1) + "\n", "AGENTS.md": f"- {SECRET_LIFE}\n- be kind\n"}),
        lora_folder=lora_folder(root.parent / lora, lora) if lora else None,
        lora=None if lora else head.lora,
        records=records,
        evaluation={"tasks": [{"prompt": SECRET_LIFE, "reply": 'a "reply"'}]},
    )
    return await services.publisher.publish(draft, head.id)


def _left(root: Path, words: str) -> list[str]:
    """Files that say it, git objects unpacked."""
    found = []
    for path in root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            if "objects" in path.parts and "lfs" not in path.parts and len(path.name) == 38:
                data = zlib.decompress(data)
            if words.encode() in data:
                found.append(str(path.relative_to(root)))
    return found


async def test_a_session_is_gone_from_the_home_and_from_what_serves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "home"
    async with running(root, ScriptedEngine({"cello": f"Oh. {SECRET_LIFE}, you say."})) as daemon:
        services = daemon.services
        answer = await daemon.chat(SECRET_LIFE)
        receipt, other = answer.headers["x-reef-agent-record-id"], (await daemon.chat(KEPT)).headers["x-reef-agent-record-id"]
        session = services.reader.inference(receipt).session
        reported = {"references": [receipt], "score": 1, "feedback": f"It knows that {SECRET_LIFE}"}
        assert (await daemon.client.post("/reef/report", json=reported)).status_code == 200
        shown = (Demonstration(prompt="short", reply="short too", source=receipt), Demonstration(prompt=KEPT, reply="tea", source=other))
        first = await _publish(daemon, root, (other,), lora="clean")
        second = await _publish(daemon, root, (receipt, other), lora="tainted", shown=shown)
        run = services.home.runs / "run_1"
        run.mkdir(parents=True)
        (run / "samples.jsonl").write_text(SECRET_LIFE)
        await _note_run(daemon, receipt)
        aside = root / "before-restore-20260101-000000"
        aside.mkdir()
        path = "/reef/scenarios/default/forget"
        assert (await daemon.client.post(path, json={"session": session})).status_code == 403
        for wrong in ({}, {"session": session, "record": receipt}, {"session": session, "retire": 1}):
            assert (await daemon.owner.post(path, json=wrong)).status_code == 400
        assert (await daemon.owner.post(path, json={"session": "ses_none"})).status_code == 404
        plan = (await daemon.owner.post(path, json={"session": session, "dry_run": True})).json()
        assert plan["copies"] == [str(aside)]
        touched = {one["release_id"]: one for one in plan["releases"]}
        assert touched[second.id] == {
            "scenario": "default",
            "release_id": second.id,
            "state": "published",
            "trained": True,
            "files": 3,
            "serving": True,
        }
        assert not touched[first.id]["trained"] and touched[first.id]["files"] == 2
        assert _left(root, SECRET_LIFE) and not plan["forgotten"], "a dry run changes nothing"
        done = (await daemon.owner.post(path, json={"session": session, "retire": True})).json()
        assert done["forgotten"] and done["records"] == [receipt] and len(done["reports"]) == 1 and done["scrubbed"]
        head = services.repository.head("default")
        assert head is not None and head.id == done["head"] and head.lora is not None and first.lora is not None
        assert head.lora.id == first.lora.id, "the newest LoRA that was not trained on it"
        served = services.serving.head("default")
        assert served is not None and [one.source for one in served.hints.demonstrations] == [other]
        assert services.reader.inference(other).messages[0]["content"] == KEPT
        assert services.repository.release("default", second.id).evaluation == {"tasks": [{"prompt": "[forgotten]", "reply": 'a "reply"'}]}
        assert second.lora is not None and not services.repository.weights.path_of(second.lora.id).exists()
        assert "short too" not in json.dumps(services.repository.release("default", second.id).tree.files["serving.json"])
        commits = (await daemon.owner.get("/reef/scenarios/default/commits")).json()["commits"]
        assert commits[0]["operation"] == "forget" and SECRET_LIFE not in json.dumps(commits)
        answer = await daemon.owner.post("/reef/scenarios/default/rollback", json={"release_id": second.id})
        assert answer.status_code == 409, "weights that were erased do not come back"
        assert (await daemon.chat(KEPT)).status_code == 200
    assert _left(root, SECRET_LIFE) == [] and _left(root, "Bartholomew") == []
    assert run_fsck(services.home, json_output=False) == 0, capsys.readouterr().out
    assert "erased" in capsys.readouterr().out
    if shutil.which("git"):
        await asyncio.to_thread(
            subprocess.run, ["git", "clone", "-q", str(services.home.versions), str(tmp_path / "look")], check=True, timeout=60
        )
        assert "be kind" in (tmp_path / "look/harness/AGENTS.md").read_text()


async def _note_run(daemon: Running, receipt: str) -> None:
    runs = daemon.services.runs
    await asyncio.wrap_future(runs.create("default", "sft", run_id="run_1"))
    await asyncio.wrap_future(runs.add_records("run_1", [receipt]))
    await asyncio.wrap_future(runs.event("run_1", {"type": "task", "reply": SECRET_LIFE}))


async def test_a_held_candidate_that_was_made_from_it_is_given_up(tmp_path: Path) -> None:
    async with running(tmp_path / "home") as daemon:
        receipt = (await daemon.chat(SECRET_LIFE)).headers["x-reef-agent-record-id"]
        services = daemon.services
        head = services.repository.head("default")
        assert head is not None
        draft = Draft("default", Operation.TRAINING, head.manifest.base, lora_folder=lora_folder(tmp_path / "l"), records=(receipt,))
        held = await services.publisher.hold(draft)
        done = (await daemon.owner.post("/reef/scenarios/default/forget", json={"record": receipt})).json()
        assert done["dropped"] == [held.id] and done["head"] is None
        assert services.repository.held("default") == []
        assert held.lora is not None and not services.repository.weights.path_of(held.lora.id).exists()


async def test_tampering_is_told_from_a_tombstone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "home"
    async with running(root) as daemon:
        receipt = (await daemon.chat(SECRET_LIFE)).headers["x-reef-agent-record-id"]
        await _publish(daemon, root, (receipt,))
        assert (await daemon.owner.post("/reef/scenarios/default/forget", json={"record": receipt})).json()["files"] == 2
    assert run_fsck(daemon.services.home, json_output=False) == 0
    registry = daemon.services.home.versions / "reef" / "tombstones.json"
    known = json.loads(registry.read_text())
    name = next(iter(known["objects"]))
    known["objects"][name] = "0" * 40
    registry.write_text(json.dumps(known))
    assert run_fsck(daemon.services.home, json_output=False) == 1
    assert "another hash" in capsys.readouterr().out


async def test_what_was_interrupted_is_finished_by_the_same_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root, path = tmp_path / "home", "/reef/scenarios/default/forget"
    async with running(root) as daemon:
        answer = await daemon.chat(SECRET_LIFE)
        receipt = answer.headers["x-reef-agent-record-id"]
        session = daemon.services.reader.inference(receipt).session
        await _publish(daemon, root, (receipt,), lora="tainted", shown=(Demonstration(prompt="a", reply="b", source=receipt),))

        def full(*_: object) -> bool:
            raise StorageError("The disk is full.")

        with monkeypatch.context() as patched:
            patched.setattr(forget, "erase", full)
            assert (await daemon.owner.post(path, json={"session": session, "retire": True})).status_code == 507
        assert daemon.services.reader.inference(receipt).id == receipt, "it can still be named"
        done = (await daemon.owner.post(path, json={"session": session, "retire": True})).json()
        assert done["forgotten"] and done["head"] is None, "what serves was put right the first time"
    assert _left(root, SECRET_LIFE) == []
    assert run_fsck(daemon.services.home, json_output=False) == 0


async def test_nothing_is_forgotten_while_a_run_may_read_it(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        receipt = (await daemon.chat(SECRET_LIFE)).headers["x-reef-agent-record-id"]
        daemon.services.runner._starting = True  # as while a run is being prepared
        answer = await daemon.owner.post("/reef/scenarios/default/forget", json={"record": receipt})
        daemon.services.runner._starting = False
        assert answer.status_code == 409 and "under way" in answer.text
        assert daemon.services.reader.inference(receipt).id == receipt

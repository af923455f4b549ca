"""Releases, moved and compared over HTTP, with what then serves."""

from __future__ import annotations

import asyncio
from pathlib import Path

from daemon.evolution.publish import engine_settings
from daemon.harness.hints import with_hints
from daemon.harness_tree import HarnessTree
from daemon.serving.releases import base_facts
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running

BASE = "/reef/scenarios/default"


async def publish_hints(daemon: Running, prefix: str, *, hold: bool = False) -> str:
    """Publish, or hold, a release with a system prefix."""
    services = daemon.services
    hints = ServingHints(system_prefix=prefix, demonstrations=(Demonstration(prompt="p", reply="r"),), sampling={"temperature": 0.5})
    model = services.engine.model
    draft = Draft(
        "default", Operation.TRAINING, base_facts(model), with_hints(HarnessTree(), hints), engine=engine_settings(model), who="test"
    )
    if hold:
        return (await services.publisher.hold(draft)).id
    head = services.serving.head("default")
    return (await services.publisher.publish(draft, head.release_id if head else None)).id


async def test_rollback_and_undo_serve_what_they_say(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        second = await publish_hints(daemon, "Be brief.")
        reply = await daemon.client.post("/v1/chat/completions", json={"model": "scripted", "messages": [{"role": "user", "content": "x"}]})
        record = daemon.services.reader.inference(reply.headers["x-reef-agent-record-id"])
        assert record.release_id == second and record.sampling.temperature == 0.5
        assert record.effective_messages is not None and record.effective_messages[0] == {"role": "system", "content": "Be brief."}
        assert record.messages == ({"role": "user", "content": "x"},)
        back = await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r1", "expected_head": second})
        assert back.status_code == 200 and back.json()["operation"] == "rollback" and back.json()["current"]
        plain = await daemon.chat("y")
        assert plain.headers["x-reef-release-id"] == back.json()["release_id"]
        assert daemon.services.reader.inference(plain.headers["x-reef-agent-record-id"]).effective_messages is None
        undone = (await daemon.owner.post(f"{BASE}/undo", json={})).json()
        assert undone["operation"] == "undo"
        head = daemon.services.serving.head("default")
        assert head is not None and head.hints.system_prefix == "Be brief."
        listed = (await daemon.client.get(f"{BASE}/releases")).json()["releases"]
        assert [release["current"] for release in listed] == [True, False, False, False]
        log = (await daemon.client.get(f"{BASE}/commits")).json()["commits"]
        assert [row["operation"] for row in log] == ["undo", "rollback", "training", "creation"]
        assert log[0]["who"] == "owner"


async def test_a_stale_head_is_a_409_that_names_the_one_that_stands(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        second = await publish_hints(daemon, "Be brief.")
        stale = await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r1", "expected_head": "r1"})
        assert stale.status_code == 409 and second in stale.json()["error"]["message"]
        assert (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r77"})).status_code == 404
        assert (await daemon.owner.post(f"{BASE}/rollback", json={})).status_code == 400
        assert (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": second})).status_code == 409
        several = [daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r1", "expected_head": second}) for _ in range(4)]
        assert sorted(response.status_code for response in await asyncio.gather(*several)) == [200, 409, 409, 409]


async def test_a_held_candidate_is_listed_compared_and_promoted(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        listed = (await daemon.client.get(f"{BASE}/releases")).json()["releases"]
        assert listed[0]["release_id"] == held and listed[0]["pending"] and not listed[0]["current"]
        [scenario] = (await daemon.client.get("/reef/status")).json()["scenarios"]
        assert scenario["held"] == [held]
        compared = (await daemon.client.get(f"{BASE}/releases/head/diff/{held}")).json()
        assert compared["files"][0]["path"] == "serving.json" and "Be kind." in compared["files"][0]["unified"]
        promoted = (await daemon.owner.post(f"{BASE}/promote", json={"release_id": held, "expected_head": "r1"})).json()
        assert promoted["current"] and promoted["restores"] == held
        shown = (await daemon.client.get(f"{BASE}/releases/{promoted['release_id']}")).json()
        assert "Be kind." in shown["files"]["serving.json"] and shown["base"]["model"] == "scripted"
        harness = (await daemon.client.get("/reef/harness")).json()
        assert harness["release_id"] == promoted["release_id"] and "serving.json" in harness["files"]


async def test_the_first_release_cannot_be_undone(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        response = await daemon.owner.post(f"{BASE}/undo", json={})
        assert response.status_code == 409 and "nothing to undo" in response.json()["error"]["message"]


async def test_scenarios_are_created_once_and_archived_by_the_owner(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        assert (await daemon.client.post("/reef/scenarios", json={"name": "pi"})).status_code == 201
        assert (await daemon.client.post("/reef/scenarios", json={"name": "pi"})).status_code == 200
        assert (await daemon.client.post("/reef/scenarios", json={"name": "Not A Name"})).status_code == 400
        assert (await daemon.client.post("/reef/scenarios", json={"name": "zed", "release_id": "r9"})).status_code == 409
        names = [one["name"] for one in (await daemon.client.get("/reef/scenarios")).json()["scenarios"]]
        assert names == ["default", "pi"]
        assert (await daemon.owner.delete("/reef/scenarios/pi")).status_code == 200
        assert (await daemon.client.get("/reef/scenarios/pi")).status_code == 404
        assert (await daemon.owner.delete("/reef/scenarios/default")).status_code == 400
        await daemon.client.post("/reef/scenarios", json={"name": "pi"})
        back = (await daemon.client.get("/reef/scenarios/pi/commits")).json()["commits"]
        assert [row["operation"] for row in back] == ["creation"], "it was made once"


async def test_evaluation_answers_without_recording_and_gives_tokens(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish_hints(daemon, "Be brief.")
        path = f"{BASE}/evaluation"
        body = {"messages": [{"role": "user", "content": "x"}], "model": "", "temperature": 0}
        head = (await daemon.owner.post(f"{path}/head/v1/chat/completions", json=body)).json()
        base = (await daemon.owner.post(f"{path}/base/v1/chat/completions", json=body)).json()
        assert "agent_record_id" not in head["reef"] and len(head["reef"]["tokens"]["logprobs"]) == head["usage"]["completion_tokens"]
        assert "choices" not in head["reef"]
        both = (await daemon.owner.post(f"{path}/head/v1/chat/completions", json={**body, "n": 2})).json()
        assert [len(one["tokens"]["logprobs"]) for one in both["reef"]["choices"]] == [len(head["reef"]["tokens"]["logprobs"])] * 2
        assert both["reef"]["choices"][0]["tokens"] == both["reef"]["tokens"]
        assert head["usage"]["prompt_tokens"] > base["usage"]["prompt_tokens"], "the head's hints apply, the base has none"
        tokens = (await daemon.owner.post(f"{path}/head/v1/render", json={"messages": body["messages"]})).json()["tokens"]
        assert len(tokens) == base["usage"]["prompt_tokens"]
        scored = (await daemon.owner.post(f"{path}/r1/v1/score", json={"tokens": tokens})).json()["logprobs"]
        assert len(scored) == len(tokens) - 1
        assert (await daemon.owner.post(f"{path}/r99/v1/score", json={"tokens": [1, 2]})).status_code == 404
        assert (await daemon.owner.post("/reef/scenarios/new/evaluation/head/v1/chat/completions", json=body)).status_code == 404
        assert daemon.services.reader.last_receipt("default") is None and daemon.services.repository.scenarios() == ["default"]

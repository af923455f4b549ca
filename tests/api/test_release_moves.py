"""What an owner does with releases over HTTP: pins, and every way in which the head moves or is refused to."""

from __future__ import annotations

from pathlib import Path

from daemon.harness_tree import HarnessTree
from daemon.recovery import recover
from daemon.serving.releases import base_facts
from daemon.versions.fsck import fsck
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.api.test_releases import BASE, publish_hints
from tests.daemon.running import running


async def test_a_pin_is_set_once_listed_and_taken_off(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        second = await publish_hints(daemon, "Be brief.")
        assert (await daemon.client.post(f"{BASE}/pins", json={"release_id": "r1"})).status_code == 403
        told = (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r1"})).json()
        assert told == {"release_id": "r1", "pinned": True, "changed": True, "pins": ["r1"]}
        again = (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r1"})).json()
        assert again["changed"] is False and again["pins"] == ["r1"]
        await daemon.owner.post(f"{BASE}/pins", json={"release_id": second})
        assert (await daemon.client.get(f"{BASE}/pins")).json() == {"pins": [second, "r1"]}
        assert fsck(daemon.services.repository) == []
        assert (await daemon.chat("x")).headers["x-reef-release-id"] == second
        off = (await daemon.owner.delete(f"{BASE}/pins/r1")).json()
        assert (off["pinned"], off["changed"], off["pins"]) == (False, True, [second])
        assert (await daemon.owner.delete(f"{BASE}/pins/r1")).json()["changed"] is False
        assert (await daemon.owner.post(f"{BASE}/pins", json={"release_id": "r77"})).status_code == 404
        log = (await daemon.client.get(f"{BASE}/commits", params={"limit": 3})).json()["commits"]
        assert [(row["operation"], row["before"], row["after"], row["who"]) for row in log] == [
            ("unpin", second, second, "owner"),
            ("pin", second, second, "owner"),
            ("pin", second, second, "owner"),
        ]
        assert log[0]["detail"] == {"release_id": "r1"}


async def test_what_a_pin_could_not_keep_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        held = await publish_hints(daemon, "Be kind.", hold=True)
        refused = await daemon.owner.post(f"{BASE}/pins", json={"release_id": held})
        assert refused.status_code == 409 and "needs no pin" in refused.json()["error"]["message"]
        assert (await daemon.client.get(f"{BASE}/pins")).json() == {"pins": []}


async def test_back_and_forth_as_often_as_one_likes_and_each_refusal_says_why(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        second, third = await publish_hints(daemon, "Be brief."), await publish_hints(daemon, "Be kind.")

        async def ask(operation: str, **body: str) -> tuple[int, str]:
            answer = await daemon.owner.post(f"{BASE}/{operation}", json=body)
            return answer.status_code, answer.json().get("release_id") or answer.json()["error"]["message"]

        def prefix() -> str:
            head = daemon.services.serving.head("default")
            assert head is not None
            return head.hints.system_prefix

        assert await ask("rollback", release_id="head~1", expected_head=third) == (200, "r4") and prefix() == "Be brief."
        assert await ask("rollback", release_id="r4") == (409, "r4 serves already; nothing would change.")
        assert await ask("rollback", release_id=second) == (409, "r4 serves the very content of r2; nothing would change.")
        assert await ask("undo", expected_head="r4") == (200, "r5") and prefix() == "Be kind."
        assert await ask("undo") == (200, "r6") and prefix() == "Be brief."  # the undo is undone
        assert await ask("rollback", release_id="r1") == (200, "r7") and prefix() == ""
        assert await ask("rollback", release_id="r6", expected_head="r6") == (409, "r7 is the head of default now; you saw r6.")
        assert await ask("rollback", release_id="head~9") == (404, "There is nothing 9 steps before r7: r1 is the first release.")
        assert await ask("promote", release_id="r6") == (409, "r6 is published, not held.")
        held = await publish_hints(daemon, "Be gone.", hold=True)
        assert await ask("rollback", release_id=held) == (409, f"{held} is held and has never served.")
        assert await ask("promote", release_id=held) == (200, "r9") and prefix() == "Be gone."
        listed = (await daemon.client.get(f"{BASE}/releases")).json()["releases"]
        told = [(one["release_id"], one["state"], one["promoted_as"]) for one in listed[:3]]
        assert told == [("r9", "published", None), (held, "promoted", "r9"), ("r7", "published", None)]
        assert [one["current"] for one in listed] == [True] + 8 * [False]
        log = (await daemon.client.get(f"{BASE}/commits")).json()["commits"]
        heads = [(row["operation"], row["before"], row["after"]) for row in log]
        assert heads[:3] == [("promote", "r7", "r9"), ("held", "r7", held), ("rollback", "r6", "r7")]
        first = (await daemon.client.get(f"{BASE}/commits", params={"limit": 4})).json()
        rest = (await daemon.client.get(f"{BASE}/commits", params={"limit": 100, "before": first["next"]})).json()
        assert [*first["commits"], *rest["commits"]] == log and rest["next"] is None
        assert fsck(daemon.services.repository) == []


async def test_a_release_of_another_model_is_refused_with_the_file_to_put_back(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        services = daemon.services
        gone = base_facts(services.engine.model).model_copy(update={"model": "gone", "file": "gone.gguf", "sha256": "a" * 64})
        services.repository.publish(Draft("default", Operation.TRAINING, gone, HarnessTree({"AGENTS.md": "- a\n"}), who="test"), "r1")
        await recover(services)  # as a start with this model: what was made for the other gives way
        refused = (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": "r2"})).json()["error"]
        assert refused["message"] == "r2 was made for another base model than scripted, which serves now."
        assert refused["hint"] == f"base missing: put back gone.gguf (sha256 {'a' * 64}), then: reef models use gone.gguf"
        undone = await daemon.owner.post(f"{BASE}/undo", json={})
        assert undone.status_code == 409 and undone.json()["error"]["hint"] == refused["hint"]


async def test_an_old_release_that_is_pinned_can_still_be_asked_by_name(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        services = daemon.services
        base = base_facts(services.engine.model)
        for number in range(22):
            head = services.repository.head("default")
            assert head is not None
            drafted = Draft("default", Operation.TRAINING, base, HarnessTree({"AGENTS.md": f"- {number}\n"}), who="test")
            services.repository.publish(drafted, head.id)
        for name in ("r2", "r23"):
            await daemon.owner.post(f"{BASE}/pins", json={"release_id": name})
        names = [model["id"] for model in (await daemon.client.get("/v1/models")).json()["data"]]
        assert names[1] == "scripted@r23" and names[-1] == "scripted@r2" and len(names) == len(set(names)) == 1 + 20 + 1
        assert (await daemon.chat("x", model="scripted@r2")).headers["x-reef-release-id"] == "r2"

"""What the guard finds serves only after a person has said yes to all of it; a recipe alone never gets a program through."""

from __future__ import annotations

import asyncio
from pathlib import Path

from daemon.evolution.consent import Unconfirmed
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.versions.fsck import fsck
from daemon.versions.release import ReleaseState
from tests.api.test_release_reading import publish, rules
from tests.daemon.running import Running, running
from tests.evolution.run_bench import bench
from tests.evolution.test_promoting import drafted, prefixed

BASE = "/reef/scenarios/default"
TREE = HarnessTree({
    "AGENTS.md": "- a rule\n- See https://docs.example/x\n",
    "extensions/own/index.ts": "export default 1\n",
})  # fmt: skip


async def ask(daemon: Running, release_id: str, **more: object) -> tuple[int, JSONObject]:
    answer = await daemon.owner.post(f"{BASE}/promote", json={"release_id": release_id, **more})
    return answer.status_code, answer.json()


def ids(told: JSONObject) -> list[str]:
    findings = told["findings"]
    assert isinstance(findings, list)
    return [str(one["id"]) for one in findings if isinstance(one, dict)]


async def test_a_held_candidate_serves_only_after_a_yes_to_everything_that_is_found(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        await publish(daemon, "- a rule\n")
        held = await daemon.services.publisher.hold(rules(daemon, "", harness=TREE))
        status, told = await ask(daemon, held.id, expected_head="r2")
        assert status == 409 and told["error"]["code"] == "unconfirmed", told  # type: ignore[index, call-overload]
        assert (told["release_id"], told["head"]) == (held.id, "r2")
        found = [(one["path"], one["line"], one["executable"]) for one in told["findings"]]  # type: ignore[index, union-attr, call-overload]
        assert found == [("AGENTS.md", 2, False), ("extensions/own/index.ts", 1, True)]
        files = {one["path"]: one for one in told["files"]}  # type: ignore[index, union-attr, call-overload]
        assert (
            "+- See https://docs.example/x" in files["AGENTS.md"]["unified"]
            and "+export default 1" in files["extensions/own/index.ts"]["unified"]
        )
        one, other = ids(told)
        for some in ([one], [other], ["0" * 16]):
            assert (await ask(daemon, held.id, confirmed=some))[0] == 409
        assert daemon.services.serving.head("default").release_id == "r2"  # type: ignore[union-attr]
        status, made = await ask(daemon, held.id, confirmed=[one, other])
        assert status == 200 and made["current"], made
        assert str(made["verdict"]).endswith("a person said yes to 2 findings of the guard")
        assert (await daemon.client.get("/reef/harness")).json()["files"] == dict(TREE.files)
        for target in ("r2", made["release_id"]):  # both have served: going back and forth asks nothing
            assert (await daemon.owner.post(f"{BASE}/rollback", json={"release_id": target})).status_code == 200
        assert fsck(daemon.services.repository) == []


async def test_a_yes_counts_for_the_very_text_that_was_shown(tmp_path: Path) -> None:
    async with running(tmp_path) as daemon:
        long = "x = 1\n" * 100
        first = await daemon.services.publisher.hold(rules(daemon, "", harness=HarnessTree({"extensions/a.ts": long + "good()\n"})))
        other = await daemon.services.publisher.hold(rules(daemon, "", harness=HarnessTree({"extensions/a.ts": long + "evil()\n"})))
        _, told = await ask(daemon, first.id)
        assert (await ask(daemon, other.id, confirmed=ids(told)))[0] == 409


async def test_an_aged_candidate_is_confirmed_before_it_is_evaluated_and_then_serves(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        publisher, repository = on.services.publisher, on.services.repository
        tree = HarnessTree({**prefixed("KNOWS").files, **TREE.files})
        held = await publisher.hold(drafted(on, harness=tree, change="+1 extension"))
        await publisher.publish(drafted(on, harness=HarnessTree({"commands/mine.md": "Look.\n"})), "r1")
        status, told = await ask(on.daemon, held.id)
        assert status == 409 and len(ids(told)) == 2
        assert on.runner.active is None and on.services.runs.list("default") == []
        status, told = await ask(on.daemon, held.id, confirmed=ids(told))
        assert status == 202, told
        run = await asyncio.wait_for(on.runner.wait(told["run"]["run_id"]), 60)  # type: ignore[index, call-overload, arg-type]
        assert run.verdict == "promoted", run
        head = repository.head("default")
        assert head is not None and set(head.tree.files) == {*tree.files, "commands/mine.md"}
        assert head.manifest.verdict.endswith("a person said yes to 2 findings of the guard")


async def test_no_recipe_gets_a_program_through_by_itself_not_even_one_that_disarms_the_guard(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        before = on.head
        for name in ("Extends", "Cheats"):
            run, _ = await on.run(name)
            assert run.verdict == "held" and "extensions/own/index.ts:1: executable" in run.sentence, (name, run)
            assert on.head == before
            held = on.services.repository.release("default", str(run.release_id))
            assert held.state is ReleaseState.HELD
        try:
            await on.services.publisher.promote("default", held.id, None, "owner")
        except Unconfirmed as error:
            assert [one.executable for one in error.findings] == [True]
        else:
            raise AssertionError("it was promoted without a yes")


async def test_what_a_person_wrote_does_not_go_without_a_yes(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        edited = await on.daemon.owner.post(
            f"{BASE}/harness", json={"files": {"AGENTS.md": "- Ask before you delete.\n"}, "base_release_id": "r1"}
        )
        assert edited.json()["published"] is True, edited.text
        run, _ = await on.run("Unsays")
        assert run.verdict == "held" and run.sentence == "quarantined for a person: AGENTS.md:1: takes away what a person wrote", run
        assert "AGENTS.md" in (await on.daemon.client.get("/reef/harness")).json()["files"]

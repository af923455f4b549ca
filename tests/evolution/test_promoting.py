"""Promoting a held candidate that has aged: it is evaluated on what serves now, and serves only if it is better there too."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

from daemon.evolution.publish import engine_settings
from daemon.experience.runs import Run, RunStatus
from daemon.harness.hints import read_hints, with_hints
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.serving.releases import base_facts
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.fsck import fsck
from daemon.versions.manifest import Operation, RecipeFacts
from daemon.versions.release import Draft, ReleaseState
from tests.evolution import own_recipes
from tests.evolution.run_bench import Bench, TrainableEngine, bench
from tests.versions import real_lora

BASE = "/reef/scenarios/default"


def drafted(on: Bench, **more: object) -> Draft:
    model = on.services.engine.model
    recipe = RecipeFacts(name="own", path=own_recipes.path_of("Better"))
    plain = Draft("default", Operation.TRAINING, base_facts(model), engine=engine_settings(model), recipe=recipe, seed=5, who="test")
    return replace(plain, **more)  # type: ignore[arg-type]


def prefixed(prefix: str, **hints: object) -> HarnessTree:
    return with_hints(HarnessTree(), ServingHints(system_prefix=prefix, **hints))  # type: ignore[arg-type]


async def promote(on: Bench, release_id: str) -> tuple[JSONObject, Run]:
    answer = await on.daemon.owner.post(f"{BASE}/promote", json={"release_id": release_id, "expected_head": on.head})
    assert answer.status_code == 202, answer.text
    told = answer.json()
    return told, await asyncio.wait_for(on.runner.wait(told["run"]["run_id"]), 60)


async def test_it_is_evaluated_on_what_serves_now_and_both_changes_serve(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        publisher, repository = on.services.publisher, on.services.repository
        shown = prefixed("KNOWS", demonstrations=(Demonstration(prompt="question 0", reply="good"),))
        held = await publisher.hold(drafted(on, harness=shown, change="+1 prefix", records=("rec_x",)))
        gone = await publisher.hold(drafted(on, harness=prefixed("KNOWS"), recipe=RecipeFacts(name="gone", path="gone.recipe:Gone")))
        rules = HarnessTree({"AGENTS.md": "- a person was faster\n"})
        await publisher.publish(drafted(on, harness=rules), "r1")

        told, run = await promote(on, gone.id)
        assert run.status is RunStatus.FAILED
        assert run.sentence.startswith(f"{gone.id} cannot be evaluated again, because the recipe that made it is not there as it was")

        told, run = await promote(on, held.id)
        assert told["sentence"] == f"{held.id} was evaluated against r1; r4 serves now. Its changes fit r4 and are evaluated there."
        assert (run.verdict, run.trigger, run.config["kind"], run.config["promotes"]) == ("promoted", "owner", "promote", held.id)
        assert run.sentence.endswith(f"({held.id} on r4)")
        head = repository.head("default")
        assert head is not None and head.id == on.head == run.release_id
        manifest = head.manifest
        assert head.tree.files["AGENTS.md"] == rules.files["AGENTS.md"] and read_hints(head.tree) == read_hints(shown)
        assert (manifest.operation, manifest.restores, manifest.who, manifest.run_id) == (Operation.PROMOTE, held.id, "owner", run.id)
        assert (manifest.records, manifest.seed, manifest.change) == (("rec_x",), 5, "+1 prefix")
        evaluation = head.evaluation
        assert evaluation is not None and evaluation["left_out"] == 3  # “question 0”, in each split
        assert repository.release("default", held.id).state is ReleaseState.PROMOTED
        assert not (on.services.home.runs / run.id / "replayed-lora").exists()
        assert (await on.daemon.chat("x")).headers["x-reef-release-id"] == head.id
        again = await on.daemon.owner.post(f"{BASE}/promote", json={"release_id": held.id})
        assert again.status_code == 409 and "is promoted, not held" in again.text
        assert fsck(repository) == []


async def test_a_lora_meets_new_rules_and_a_clash_starts_no_run(tmp_path: Path) -> None:
    async with bench(tmp_path, TrainableEngine()) as on:
        publisher, repository = on.services.publisher, on.services.repository
        held = await publisher.hold(drafted(on, lora_folder=real_lora.write(tmp_path / "lora"), recipe=None))
        clashing = await publisher.hold(drafted(on, harness=prefixed("mine")))
        await publisher.publish(drafted(on, harness=prefixed("theirs")), "r1")
        refused = await on.daemon.owner.post(f"{BASE}/promote", json={"release_id": clashing.id})
        assert refused.status_code == 409 and "\n  serving.json, system_prefix: r3 says" in refused.json()["error"]["message"]
        assert on.runner.active is None and on.services.runs.list("default") == []
        _, run = await promote(on, held.id)
        head = repository.head("default")
        assert head is not None and run.verdict == "promoted", run
        assert head.lora == held.lora and read_hints(head.tree).system_prefix == "theirs"
        snapshot = on.services.serving.head("default")
        assert snapshot is not None and snapshot.lora is not None and held.lora is not None and snapshot.lora.id == held.lora.id
        assert fsck(repository) == []

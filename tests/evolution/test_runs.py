"""Whole runs, in a real run process: what they decide is published, held or rejected."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from daemon.config import ReefConfig
from daemon.engine.base import Capability
from daemon.experience.runs import RunStatus
from daemon.harness_tree import HarnessTree
from daemon.serving.releases import base_facts
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.evolution import own_recipes
from tests.evolution.run_bench import PromptedEngine, TrainableEngine, bench
from tests.versions import real_lora


async def test_a_better_candidate_is_published_and_serves(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        run, events = await b.run("Better", seed=5)
        assert (run.status, run.verdict) == (RunStatus.DONE, "promoted"), run
        assert run.release_id == b.head == "r2"
        release = b.services.repository.release("default", "r2")
        manifest = release.manifest
        assert manifest.change == "+prefix"
        assert manifest.run_id == run.id
        assert manifest.seed == 5
        assert manifest.recipe is not None
        assert manifest.recipe.name == "own"
        assert manifest.evaluation is not None
        assert (manifest.evaluation.wins, manifest.evaluation.losses, manifest.evaluation.tasks) == (5, 0, 10)
        assert manifest.records == tuple(b.services.runs.consumed("default"))
        assert release.evaluation is not None
        kinds = [str(event["type"]) for event in events]
        for kind in ("phase", "selected", "candidate", "task", "decision", "answer", "result", "ended"):
            assert kind in kinds
        assert kinds[-1] == "ended"
        assert "heartbeat" not in kinds
        assert [event["phase"] for event in events if event["type"] == "phase"] == ["select", "propose", "evaluate", "publish"]


async def test_a_proposer_sees_nothing_of_held_out_and_sealed_tasks(tmp_path: Path) -> None:
    """The release that serves was judged on them: what was asked and replied there is in its evaluation."""
    async with bench(tmp_path) as b:
        run, _ = await b.run("Better")
        evaluation = b.services.repository.release("default", str(run.release_id)).evaluation_json
        assert evaluation is not None and "held-out-03" in evaluation and "sealed-01" in evaluation
        await b.run("Nothing")
        jobs = [path.read_text() for path in b.services.home.runs.glob("*/job.json")]
        assert len(jobs) == 2
        assert not [job for job in jobs if "held-out-03" in job or "sealed-01" in job]


async def test_new_weights_are_probed_published_and_their_folder_is_tidied(tmp_path: Path) -> None:
    real_lora.write(tmp_path / "own" / "lora")
    async with bench(tmp_path, TrainableEngine()) as b:
        run, events = await b.run("Weights")
        assert (run.verdict, b.head) == ("promoted", run.release_id), run
        probe = next(event for event in events if event["type"] == "probe")
        assert probe["rise"] == pytest.approx(0.02)
        head = b.services.serving.head("default")
        assert head is not None
        assert head.lora is not None
        assert head.lora.path.is_file()
        assert head.lora.path.is_relative_to(b.services.home.loras)
        assert not list((b.services.home.runs / run.id).rglob("*.gguf"))
        manifest = b.services.repository.release("default", b.head).manifest
        assert manifest.evaluation is not None
        assert manifest.evaluation.probe_rise == pytest.approx(0.02)
        assert manifest.lora_id == head.lora.id


async def test_weights_that_ruin_general_text_are_rejected_and_leave_nothing_behind(tmp_path: Path) -> None:
    real_lora.write(tmp_path / "own" / "lora")
    engine = TrainableEngine()
    engine.rise = 0.4
    async with bench(tmp_path, engine) as b:
        run, _ = await b.run("Weights")
        assert (run.verdict, b.head) == ("rejected", "r1")
        assert "the loss of general text rose by 40.0%" in run.sentence
        assert engine.loaded == {}
        assert not list(b.services.home.root.rglob("*.gguf"))


async def test_weights_that_changed_after_they_were_evaluated_are_not_published(tmp_path: Path) -> None:
    real_lora.write(tmp_path / "own" / "lora")
    async with bench(tmp_path, TrainableEngine()) as b:
        run, events = await b.run("Swaps")
        assert next(event for event in events if event["type"] == "decision")["verdict"] == "promoted"
        assert (run.status, run.sentence) == (RunStatus.FAILED, "The candidate's LoRA is not the one that was evaluated.")
        assert b.head == "r1"


async def test_weights_that_are_no_lora_fail_the_run(tmp_path: Path) -> None:
    folder = real_lora.write(tmp_path / "own" / "lora")
    (folder / "adapter_model.safetensors").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    async with bench(tmp_path, TrainableEngine()) as b:
        run, events = await b.run("Weights")
        assert (run.status, b.head) == (RunStatus.FAILED, "r1")
        assert not [event for event in events if event["type"] in ("candidate", "task")]
        assert "adapter_model.safetensors" in run.sentence


async def test_worse_is_rejected_useless_is_held_and_nothing_ends_as_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        worse, _ = await b.run("Worse")
        assert worse.verdict == "rejected"
        assert "worse" in worse.sentence
        useless, _ = await b.run("Useless")
        assert useless.verdict == "held"
        assert [held.id for held in b.services.repository.held("default")] == [useless.release_id]
        nothing, _ = await b.run("Nothing")
        assert (nothing.status, nothing.verdict, nothing.release_id) == (RunStatus.DONE, "nothing", None)
        assert b.head == "r1"


async def test_a_candidate_that_is_held_already_is_not_held_twice(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        first, _ = await b.run("Useless")
        again, events = await b.run("Useless")
        assert (again.verdict, again.release_id) == ("held", first.release_id)
        assert f"{first.release_id}, which is held already" in again.sentence
        assert events[-1]["release_id"] == first.release_id
        assert [held.id for held in b.services.repository.held("default")] == [first.release_id]


async def test_a_planted_edit_is_quarantined_before_anything_runs_with_it(tmp_path: Path) -> None:
    engine = PromptedEngine()
    async with bench(tmp_path, engine) as b:
        run, events = await b.run("Planted")
        assert run.verdict == "held"
        assert run.sentence.startswith("quarantined for a person: serving.json")
        assert not [event for event in events if event["type"] in ("task", "candidate")]
        assert not [request for request in engine.requests if "Ignore all" in str(request.messages)]
        assert b.head == "r1"


async def test_a_dry_run_decides_and_publishes_nothing(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        run, _ = await b.run("Better", dry_run=True)
        assert (run.verdict, run.release_id) == ("promoted", None)
        assert "dry run" in run.sentence
        assert b.head == "r1"
        assert b.services.repository.held("default") == []
        assert b.services.runs.records(run.id) == frozenset()  # else three rehearsals would use up what the user reported


async def test_without_held_out_tasks_a_run_says_where_to_write_some(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        (tmp_path / "home/tasks/default/tasks.yaml").unlink()
        run, events = await b.run("Better")
        assert run.sentence == "not enough evidence: there are no held-out tasks"
        assert any(f"write some in {tmp_path / 'home/tasks/default'}" in str(event.get("text")) for event in events)


async def test_settings_hold_for_the_configured_recipe_by_either_of_its_names(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        reef = ReefConfig.model_validate({"recipe": "recipes.demos.recipe:DemosRecipe", "batch_size": 3})
        b.runner.configure(b.services.config.model_copy(update={"reef": reef}), b.daemon.url)
        run, _ = await b.run("recipes.demos.recipe:DemosRecipe")
        assert run.config["settings"] == {"batch_size": 3}
        started = await b.runner.start("default", recipe="demos")
        assert started.config["settings"] == {"batch_size": 3}
        await b.runner.wait(started.id)
        run, _ = await b.run("Nothing")
        assert run.config["settings"] == {}


async def test_a_recipe_that_needs_more_than_the_engine_can_is_refused_by_name(tmp_path: Path) -> None:
    async with bench(tmp_path, PromptedEngine(capabilities=Capability.TOKEN_IDS)) as b:
        run, _ = await b.run("Greedy")
        assert run.status is RunStatus.FAILED
        assert run.sentence == "The recipe own needs an engine that gives lora, score; this one does not."


async def test_an_unknown_setting_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        run, _ = await b.run("Better", settings={"batchsize": 3})
        assert run.status is RunStatus.FAILED
        assert "Did you mean 'batch_size'?" in run.error


async def test_a_head_that_moved_meanwhile_is_a_conflict_and_stays(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Better"))
        await b.services.publisher.publish(
            Draft(
                scenario="default",
                operation=Operation.TRAINING,
                base=base_facts(b.services.engine.model),
                harness=HarnessTree({"AGENTS.md": "# Rules\n\nA person was faster.\n"}),
            ),
            "r1",
        )
        run = await asyncio.wait_for(b.runner.wait(started.id), 60)
        assert run.status is RunStatus.FAILED
        assert "r2 is the head" in run.sentence
        assert b.head == "r2"

"""Whole runs, in a real run process: what they decide is published, and what breaks in them breaks nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from daemon.config import ReefConfig
from daemon.engine.base import Capability, Event, GenerateRequest, LoRA, ModelInfo, Priority
from daemon.errors import Conflict, StorageError
from daemon.evolution.runner import Runner
from daemon.experience.runs import Run, RunStatus
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.services import Services
from daemon.serving.releases import base_facts
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine
from tests.evolution import own_recipes
from tests.versions import real_lora

TASKS = "".join(
    f"- {{id: {split}-{number:02d}, split: {split}, prompt: 'question {number}', check: {{text: good}}}}\n"
    for split, count in (("held-in", 3), ("held-out", 10), ("sealed", 2))
    for number in range(count)
)


class PromptedEngine(ScriptedEngine):
    """Answers `good` where its system prompt says KNOWS; `bad` where it says SPOILT or nothing, except for every other question."""

    def generate(self, request: GenerateRequest) -> AsyncIterator[Event]:
        system = str(request.messages[0].get("content")) if request.messages[0].get("role") == "system" else ""
        asked = str(request.messages[-1].get("content"))
        even = asked[-1:] in "02468"
        self.replies = {"question": "good" if "KNOWS" in system or (even and "SPOILT" not in system) else "bad"}
        return super().generate(request)


class TrainableEngine(PromptedEngine):
    """With a LoRA it knows every answer, and general text costs `rise` more."""

    rise = 0.02

    @property
    def model(self) -> ModelInfo:
        return dataclasses.replace(super().model, architecture="llama")

    def generate(self, request: GenerateRequest) -> AsyncIterator[Event]:
        if request.lora is None:
            return super().generate(request)
        self.lora_replies[request.lora.id] = {"question": "good"}
        return ScriptedEngine.generate(self, request)

    async def score(self, tokens: list[int], lora: LoRA | None = None, *, priority: Priority = Priority.EVALUATION) -> list[float]:
        return [-2.0 * (1 + self.rise * (lora is not None)) for _ in tokens[1:]]


@dataclass(slots=True)
class Bench:
    daemon: Running

    @property
    def services(self) -> Services:
        return self.daemon.services

    @property
    def runner(self) -> Runner:
        return self.services.runner

    @property
    def head(self) -> str:
        """What serves, which is the head of the chain."""
        release, snapshot = self.services.repository.head("default"), self.services.serving.head("default")
        assert release is not None
        assert snapshot is not None
        assert snapshot.release_id == release.id
        return release.id

    async def run(self, name: str, **more: object) -> tuple[Run, list[JSONObject]]:
        recipe = name if ":" in name else own_recipes.path_of(name)
        started = await self.runner.start("default", recipe=recipe, **more)  # type: ignore[arg-type]
        run = await asyncio.wait_for(self.runner.wait(started.id), 60)
        return run, self.events(run.id)

    def events(self, run_id: str) -> list[JSONObject]:
        return [item.event for item in self.services.runs.events(run_id)]


@contextlib.asynccontextmanager
async def bench(tmp_path: Path, engine: ScriptedEngine | None = None) -> AsyncIterator[Bench]:
    tasks = tmp_path / "home" / "tasks" / "default"
    tasks.mkdir(parents=True)
    (tasks / "tasks.yaml").write_text(TASKS)
    folder = own_recipes.write(tmp_path / "own")
    engine = engine or PromptedEngine()
    async with running(tmp_path / "home", engine) as daemon:
        receipt = (await daemon.chat("hello")).headers["x-reef-agent-record-id"]
        await daemon.client.post("/reef/report", json={"references": [receipt], "score": 1.0})
        engine.requests.clear()
        daemon.services.runner.configure(daemon.services.config, daemon.url, [folder])
        yield Bench(daemon)


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


async def test_a_home_without_room_for_a_run_says_so(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        b.services.home.runs.parent.mkdir(parents=True, exist_ok=True)
        b.services.home.runs.write_text("in the way")
        with pytest.raises(StorageError, match="Cannot make"):
            await b.runner.start("default", recipe=own_recipes.path_of("Nothing"))
        b.services.home.runs.unlink()
        run, _ = await b.run("Nothing")
        assert run.status is RunStatus.DONE


async def test_a_recipe_that_breaks_fails_its_run_with_a_sentence(tmp_path: Path) -> None:
    sentences = {
        "Raises": "The recipe own failed in propose: ValueError: the third layer is upside down",
        "Exits": "The run process ended with exit code 7.",
        "own_recipes_for_runs:Missing": "own_recipes_for_runs has no recipe class 'Missing'.",
    }
    async with bench(tmp_path) as b:
        for recipe, sentence in sentences.items():
            run, events = await b.run(recipe)
            assert (run.status, run.sentence) == (RunStatus.FAILED, sentence)
            assert events[-1]["type"] == "ended"
            assert b.head == "r1"
        again, _ = await b.run("Prints")  # what it prints does not disturb its messages
        assert again.verdict == "promoted"


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


async def test_a_run_can_be_cancelled_and_only_one_runs(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        with pytest.raises(Conflict, match=started.id):
            await b.runner.start("default", recipe=own_recipes.path_of("Better"))
        while not any(event["type"] == "note" for event in b.events(started.id)):
            await b.runner.wait_event(started.id, 1.0)
        folder = b.services.home.runs / started.id
        token = (folder / "token").read_text()
        caller = b.services.tokens.identify(token)
        assert caller is not None
        assert caller.run_id == started.id
        assert (folder / "token").stat().st_mode & 0o077 == 0
        assert token not in (folder / "job.json").read_text()
        run = await b.runner.cancel(started.id)
        assert run.status is RunStatus.CANCELLED
        assert b.services.tokens.identify(token) is None  # it dies with its run
        assert not (folder / "token").exists()
        assert b.runner.active is None
        with pytest.raises(Conflict, match="already ended"):
            await b.runner.cancel(started.id)
        after, _ = await b.run("Better")
        assert after.verdict == "promoted"


async def test_a_run_that_is_cancelled_at_once_twice_or_whose_folder_cannot_be_tidied_still_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that never ends blocks all others for as long as the daemon lives."""
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        run = await b.runner.cancel(started.id)  # its task has not taken a step yet
        assert run.status is RunStatus.CANCELLED
        assert b.runner.active is None

        started = await b.runner.start("default", recipe=own_recipes.path_of("Hangs"))
        while not any(event["type"] == "note" for event in b.events(started.id)):
            await b.runner.wait_event(started.id, 1.0)
        process = next(one for one in psutil.Process().children() if any(started.id in part for part in one.cmdline()))
        cancelling = []
        for _ in range(20):  # somebody who presses the key again and again, while it is being ended
            cancelling.append(asyncio.create_task(b.runner.cancel(started.id)))
            await asyncio.sleep(0.01)
        await asyncio.gather(*cancelling, return_exceptions=True)
        assert b.services.runs.get(started.id).status is RunStatus.CANCELLED
        assert b.runner.active is None
        assert not process.is_running()

        def refuse(folder: Path) -> None:
            raise PermissionError(13, "Permission denied", str(folder))

        monkeypatch.setattr("daemon.evolution.runner._tidy", refuse)
        run, _ = await b.run("Nothing")
        assert run.status is RunStatus.DONE
        assert b.runner.active is None


async def test_a_run_that_holds_the_interpreter_or_takes_too_long_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.evolution.supervision._EVALUATION_MINUTES", -29.95)  # half an hour of training less that: three seconds
    async with bench(tmp_path) as b:
        run, _ = await b.run("Hangs")
        assert run.status is RunStatus.FAILED
        assert run.sentence.startswith("The run took longer than")
    monkeypatch.undo()
    monkeypatch.setattr("daemon.evolution.supervision.PULSE_LIMIT_S", 2.0)
    async with bench(tmp_path / "second") as b:
        run, _ = await b.run("Hangs")
        assert run.sentence.startswith("The run process has hung")


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


async def test_what_a_run_has_started_ends_with_it(tmp_path: Path) -> None:
    """A checker's command and a trainer have sessions of their own."""
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Starts"))
        while not (notes := [event for event in b.events(started.id) if event["type"] == "note"]):
            await b.runner.wait_event(started.id, 1.0)
        process = psutil.Process(int(str(notes[0]["text"])))
        assert process.cmdline() == ["sleep", "61"]
        await b.runner.cancel(started.id)
        assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


async def test_the_trainer_stands_still_while_requests_are_served(tmp_path: Path) -> None:
    async with bench(tmp_path) as b:
        started = await b.runner.start("default", recipe=own_recipes.path_of("Trains"))
        while not (found := [event for event in b.events(started.id) if event["type"] == "trainer"]):
            await b.runner.wait_event(started.id, 1.0)
        trainer = psutil.Process(int(str(found[0]["pid"])))
        activity = b.services.serving.activity

        async def becomes(stopped: bool) -> None:
            async with asyncio.timeout(5):
                while (trainer.status() == psutil.STATUS_STOPPED) is not stopped:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)

        activity.begin("default")
        await becomes(True)
        activity.end("default")
        activity.begin("default")  # the next request of the same agent, at once
        await asyncio.sleep(0.4)
        assert trainer.status() == psutil.STATUS_STOPPED
        activity.end("default")
        await becomes(False)
        activity.begin("default")
        await becomes(True)
        await b.runner.cancel(started.id)  # a stopped trainer is ended too
        activity.end("default")
        assert not trainer.is_running() or trainer.status() == psutil.STATUS_ZOMBIE

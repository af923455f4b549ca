"""A daemon with tasks, a scripted engine and the recipes of `own_recipes`, to run whole runs in."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from daemon.engine.base import Event, GenerateRequest, LoRA, ModelInfo, Priority
from daemon.evolution.runner import Runner
from daemon.experience.runs import Run
from daemon.records import JSONObject
from daemon.services import Services
from tests.daemon.running import Running, running
from tests.engine.fake import ScriptedEngine
from tests.evolution import own_recipes

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

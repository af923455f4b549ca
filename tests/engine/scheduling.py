"""A scheduler over the fake model, and whether what it answers is what each prompt alone would be answered."""

from __future__ import annotations

from pathlib import Path

from daemon.engine.base import Priority
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.pace import Pace
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.sequence import Job, Sequence
from daemon.records import JSONObject
from tests.engine.fake_model import SIZE, FakeModel, reply_to
from tests.engine.jobs import greedy


class SteadyPace(Pace):
    """A machine that always takes as long: what the fake model takes says nothing."""

    def stepped(self, streams: int, seconds: float) -> None:
        super().stepped(streams, 0.010 + 0.003 * streams)

    def read(self, tokens: int, seconds: float) -> None:
        super().read(tokens, 0.0025 * tokens)

    def copied(self, size: int, seconds: float) -> None: ...


class Scheduling:
    """LoRAs are named by numbers; 0 is the base model."""

    def __init__(self, streams: int = 2, cache_bytes: int = 1 << 20, *, cuts: bool = True) -> None:
        self.model = FakeModel(cuts=cuts)
        self.loras = LoadedLoRAs(self.model)
        self.scheduler = Scheduler(self.model, self.model, self.loras, streams, cache_bytes, SteadyPace())
        self.jobs: list[Sequence] = []
        self.messages: dict[int, list[JSONObject]] = {}

    def ask(
        self,
        prompt: list[int],
        tokens: int = 5,
        *,
        lora: int = 0,
        priority: Priority = Priority.LIVE,
        scenario: str = "",
        session: str = "",
        template: str = "",
    ) -> Sequence:
        name = str(lora) if lora else None
        job = greedy(len(self.jobs), prompt, name, priority, tokens, scenario=scenario, session=session, template=template)
        self.jobs.append(job)
        self.submit(job)
        return job

    def submit(self, job: Job) -> None:
        if job.lora_id is not None:
            self.loras.acquire(job.lora_id, Path(job.lora_id))
        self.scheduler.submit(job)

    def step(self) -> list[JSONObject]:
        messages = self.scheduler.step()
        for message in messages:
            number = message["id"]
            assert isinstance(number, int)
            self.messages.setdefault(number, []).append(message)
        return messages

    def run(self, steps: int = 2000) -> None:
        """Until nothing is left to do; then every reply must be that of its prompt alone."""
        while self.scheduler.active or self.scheduler.queued:
            steps -= 1
            assert steps, "it never ends"
            self.step()
        for job in self.jobs:
            self.check(job)

    def check(self, job: Sequence) -> None:
        assert job.completion == reply_to(job.prompt, len(job.completion), int(job.lora_id or 0)), f"reply {job.id} is not its prompt's"

    def kinds(self, job: Job) -> list[str]:
        return [str(message["type"]) for message in self.messages.get(job.id, [])]


def prompt(seed: int, length: int = 10) -> list[int]:
    """Another text for another seed, from the first token on."""
    return [(seed * 37 + index * index + index) % SIZE for index in range(length)]

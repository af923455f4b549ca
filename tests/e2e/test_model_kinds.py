"""Cells of every kind of memory are reused only where they are whole: on llama.cpp itself, with tiny random models."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from daemon.engine.base import Priority
from daemon.engine.llama.batch import Row
from daemon.engine.llama.cache.slots import SIDE_SLOTS
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.model import LlamaModel
from daemon.engine.llama.protocol import WorkerSettings
from daemon.engine.llama.sampling import log_softmax
from daemon.engine.llama.scheduler import Scheduler
from daemon.engine.llama.sequence import Sequence
from tests.engine.jobs import greedy
from tests.engine.scheduling import SteadyPace
from tests.engine.tiny_models import TOKENS, write_tiny_model

pytestmark = pytest.mark.e2e
STREAMS = 3
COLD = STREAMS + SIDE_SLOTS  # a slot that the scheduler does not know


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba"])
@pytest.mark.parametrize("cache_bytes", [0, 1 << 16, 1 << 22])
def test_every_first_token_is_that_of_a_cold_reading(kind: str, cache_bytes: int, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "model.gguf", kind)
    model = LlamaModel(WorkerSettings(model=path, context_tokens=1024, streams=STREAMS, threads=1, gpu_layers=0), COLD + 1)
    scheduler = Scheduler(model, model.vocabulary, LoadedLoRAs(model), STREAMS, cache_bytes, SteadyPace())
    chance = random.Random(cache_bytes)
    texts = [[chance.randrange(3, TOKENS) for _ in range(300)] for _ in range(4)]
    jobs: list[Sequence] = []
    for number in range(60):
        start = chance.choice(texts)[: chance.randint(1, 300)]
        prompt = start if chance.random() < 0.3 else [*start, *(chance.randrange(3, TOKENS) for _ in range(chance.randint(1, 60)))]
        priority = chance.choice([Priority.LIVE, Priority.LIVE, Priority.LIVE, Priority.EVALUATION])
        jobs.append(greedy(number, prompt, None, priority, chance.randint(1, 6)))
        scheduler.submit(jobs[-1])
        for _ in range(chance.randint(0, 6)):
            scheduler.step()
        if chance.random() < 0.2:
            scheduler.cancel(chance.choice(jobs).id)
    while scheduler.active or scheduler.queued:
        scheduler.step()
    for job in jobs:
        if job.completion:
            model.truncate(COLD, 0)
            last = len(job.prompt) - 1
            logits = model.decode([Row(token, at, COLD, at == last) for at, token in enumerate(job.prompt)], None)
            token = job.completion[0]
            assert token == int(np.argmax(logits[0]))
            assert job.logprobs[0] == pytest.approx(float(log_softmax(logits)[0, token]), abs=1e-5)
    if kind != "mamba":
        assert sum(job.cached for job in jobs) > 500

"""A LoRA of finite values may still compute none: its own requests fail, and whatever takes their places does not notice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from daemon.config import LlamaConfig
from daemon.engine.base import Engine
from daemon.engine.factory import make_engine
from daemon.errors import EngineError
from daemon.gguf import read_header
from daemon.models import embedded_model
from daemon.paths import Home
from tests.engine.contract import collect, request
from tests.engine.random_lora import write_random_lora

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]

STREAMS = 2
LONG = "The river is long, and its boats are slow. " * 30


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Engine]:
    engine = make_engine(LlamaConfig(context=1024, streams=STREAMS), Home(tmp_path / "home"))
    await engine.start()
    yield engine
    await engine.stop()


@pytest.mark.parametrize("wrong", [{"strength": 1e30}, {"alpha": 3e38}])
async def test_a_lora_that_computes_no_numbers_leaves_none_behind(engine: Engine, tmp_path: Path, wrong: dict[str, float]) -> None:
    broken = write_random_lora(tmp_path / "broken.gguf", read_header(embedded_model()), **wrong)  # type: ignore[arg-type]
    await engine.load_lora(broken)
    texts = ("Count to five.", LONG)
    alone = [await collect(engine, request(text)) for text in texts]
    scored = await engine.score(list(range(1, 40)))

    for _ in range(2):
        asked = [collect(engine, request(text, lora=broken)) for text in (LONG, "Count to five.", "Name a colour.")]
        failed = await asyncio.gather(*asked, engine.score(list(range(1, 40)), broken), return_exceptions=True)
        for error in failed:
            assert isinstance(error, EngineError) and "not numbers" in error.message, failed

        stream = engine.generate(request(LONG, lora=broken))
        reading = asyncio.create_task(anext(stream))  # hung up on while it is read
        await asyncio.sleep(0.05)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)

        again = await asyncio.gather(*(collect(engine, request(text)) for text in texts))
        for (text, finished), (expected_text, expected) in zip(again, alone, strict=True):
            assert finished.tokens and expected.tokens
            assert (text, finished.tokens.logprobs) == (expected_text, expected.tokens.logprobs)
        assert await engine.score(list(range(1, 40))) == scored
    assert engine.stats.restarts == 0

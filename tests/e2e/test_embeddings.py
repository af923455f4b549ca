"""Vectors of texts from a model that pools, made between the steps of running streams; a model that does not pool says so."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from pathlib import Path

import gguf
import pytest
from gguf.scripts.gguf_new_metadata import MetadataDetails, copy_with_new_metadata

from daemon.engine.base import Capability, Embedded
from daemon.engine.llama.engine import LlamaEngine
from daemon.engine.llama.protocol import WorkerSettings
from daemon.errors import BadRequest, ContextOverflow, Unsupported
from daemon.gguf import read_header
from daemon.models import embedded_model
from tests.engine.contract import collect, request

pytestmark = pytest.mark.e2e
LONG = "The river runs past the old mill and on to the sea. " * 20


@pytest.fixture(scope="module")
def pooling_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with the metadata of one that pools by the mean."""
    path = tmp_path_factory.mktemp("models") / "pooling.gguf"
    kind = MetadataDetails(gguf.GGUFValueType.UINT32, 1)
    copy_with_new_metadata(gguf.GGUFReader(embedded_model()), gguf.GGUFWriter(path, "llama"), {"llama.pooling_type": kind}, ())
    return path


@pytest.fixture
async def engine(pooling_model: Path, tmp_path: Path) -> AsyncIterator[LlamaEngine]:
    settings = WorkerSettings(model=pooling_model, context_tokens=512, streams=2, threads=1, gpu_layers=0)
    llama = LlamaEngine(settings, read_header(pooling_model), "pooling", tmp_path / "engine.log")
    await llama.start()
    yield llama
    await llama.stop()


async def test_vectors_have_unit_length_and_mean_something(engine: LlamaEngine) -> None:
    assert Capability.EMBEDDINGS in engine.capabilities
    texts = ("A cat sleeps on the sofa.", "A kitten is asleep on the couch.", "Quarterly revenue rose by three percent.", LONG)
    made = await engine.embed(texts)
    cat, kitten, revenue, _ = made.vectors
    assert all(math.isclose(_dot(vector, vector), 1, abs_tol=1e-5) for vector in made.vectors)
    assert _dot(cat, kitten) > _dot(cat, revenue)
    assert made.tokens > 250
    alone = [(await engine.embed((text,))).vectors[0] for text in texts]
    assert tuple(alone) == made.vectors


async def test_a_stream_beside_says_what_it_says_alone(engine: LlamaEngine) -> None:
    alone = await collect(engine, request(max_tokens=40))
    beside, made = await asyncio.gather(collect(engine, request(max_tokens=40)), engine.embed((LONG, LONG)))
    assert isinstance(made, Embedded)
    assert beside[1].tokens == alone[1].tokens


async def test_what_cannot_be_embedded_is_a_sentence(engine: LlamaEngine) -> None:
    with pytest.raises(ContextOverflow):
        await engine.embed(("word " * 600,))
    with pytest.raises(BadRequest):
        await engine.embed(())


async def test_a_model_that_does_not_pool_says_so(tmp_path: Path) -> None:
    settings = WorkerSettings(model=embedded_model(), context_tokens=512, streams=1, threads=1, gpu_layers=0)
    engine = LlamaEngine(settings, read_header(embedded_model()), "embedded", tmp_path / "engine.log")
    await engine.start()
    try:
        assert Capability.EMBEDDINGS not in engine.capabilities
        with pytest.raises(Unsupported):
            await engine.embed(("a",))
    finally:
        await engine.stop()


def _dot(left: tuple[float, ...], right: tuple[float, ...]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))

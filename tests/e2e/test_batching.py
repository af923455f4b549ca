"""What a sequence computes does not depend on what shares its batch: bit for bit on the base model, at one batch shape with a LoRA."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from daemon.engine.llama.batch import Row
from daemon.engine.llama.cache.arena import Arena
from daemon.engine.llama.model import MIN_PIECE, LlamaModel, LoRAHandle
from daemon.engine.llama.protocol import WorkerSettings
from daemon.gguf import read_header
from daemon.models import embedded_model
from tests.engine.random_lora import write_random_lora

pytestmark = pytest.mark.e2e
SLOTS = 9
ALONE = 8  # the slot that a sequence is computed in alone
STEPS = 4
Logits = NDArray[np.float32]


@pytest.fixture(scope="module")
def model() -> LlamaModel:
    return LlamaModel(WorkerSettings(model=embedded_model(), context_tokens=256, streams=1, threads=1, gpu_layers=0), SLOTS)


@pytest.fixture(scope="module")
def lora(model: LlamaModel, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoRAHandle]:
    path = tmp_path_factory.mktemp("lora") / "lora.gguf"
    write_random_lora(path, read_header(embedded_model()), strength=0.05)
    handle = model.load_lora(path)
    yield handle
    model.free_lora(handle)


class Text:
    """A prompt, what follows it, and the logits after the prompt and after each following token."""

    def __init__(self, chance: random.Random, size: int) -> None:
        self.tokens = [chance.randrange(100, size) for _ in range(chance.randint(MIN_PIECE, 60) + STEPS)]
        self.prompt_tokens = len(self.tokens) - STEPS
        self.logits: list[Logits] = []

    def read(self, model: LlamaModel, slot: int, start: int, size: int, lora: LoRAHandle | None = None) -> None:
        piece = self.tokens[start : min(start + size, self.prompt_tokens)]
        last = start + len(piece) == self.prompt_tokens
        rows = [Row(token, start + place, slot, last and place == len(piece) - 1) for place, token in enumerate(piece)]
        logits = model.decode(rows, lora)
        if last:
            self.logits.append(logits[0].copy())

    def row(self, slot: int) -> Row:
        at = self.prompt_tokens + len(self.logits) - 1
        return Row(self.tokens[at], at, slot, True)


def alone(model: LlamaModel, text: Text, lora: LoRAHandle | None = None) -> list[Logits]:
    same = Text.__new__(Text)
    same.tokens, same.prompt_tokens, same.logits = text.tokens, text.prompt_tokens, []
    model.truncate(ALONE, 0)
    same.read(model, ALONE, 0, 200, lora)
    for _ in range(STEPS):
        same.logits.append(model.decode([same.row(ALONE)], lora)[0].copy())
    return same.logits


@given(st.integers(0, 2**32), st.integers(1, 8))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_together_and_alone_agree_bit_for_bit_on_the_base_model(model: LlamaModel, seed: int, streams: int) -> None:
    """Prompts of any length cut anywhere into pieces of `MIN_PIECE` or more, joined at any time, moved between slots."""
    chance = random.Random(seed)
    texts = {slot: Text(chance, model.vocabulary.size) for slot in range(streams)}
    arena = Arena(64 << 20)
    read = dict.fromkeys(texts, 0)
    for slot in texts:
        model.truncate(slot, 0)
    while any(len(text.logits) <= STEPS for text in texts.values()):
        reading = [slot for slot, text in texts.items() if read[slot] < text.prompt_tokens]
        if reading and chance.random() < 0.6:
            slot = chance.choice(reading)
            left = texts[slot].prompt_tokens - read[slot]
            size = chance.choice([MIN_PIECE, MIN_PIECE + 1, chance.randint(MIN_PIECE, max(MIN_PIECE, left))])
            size = left if left - size < MIN_PIECE else size
            texts[slot].read(model, slot, read[slot], size)
            read[slot] += size
        flowing = [slot for slot, text in texts.items() if 0 < len(text.logits) <= STEPS and chance.random() < 0.8]
        if flowing:
            logits = model.decode([texts[slot].row(slot) for slot in flowing], None)
            for slot, values in zip(flowing, logits, strict=True):
                texts[slot].logits.append(values.copy())
        if chance.random() < 0.2:
            _through_memory(model, arena, chance.choice(list(texts)))
    for slot, text in texts.items():
        for step, (together, single) in enumerate(zip(text.logits, alone(model, text), strict=True)):
            assert np.array_equal(together, single), f"stream {slot} of {streams} differs at step {step}"


def _through_memory(model: LlamaModel, arena: Arena, slot: int) -> None:
    size = model.state_bytes(slot)
    block = arena.take(size)
    assert block is not None and model.save(slot, arena.address(block), size)
    model.truncate(slot, 0)
    assert model.restore(slot, arena.address(block), size)
    arena.give_back(block)


def test_with_a_lora_one_batch_shape_agrees_bit_for_bit_and_others_differ_a_little(
    model: LlamaModel, lora: LoRAHandle, record_property: pytest.RecordProperty
) -> None:
    chance = random.Random(5)
    watched = Text(chance, model.vocabulary.size)
    apart: dict[int, float] = {}
    for streams in range(1, 9):
        runs = []
        for _ in range(2):  # with other companions each time
            texts = [watched, *(Text(chance, model.vocabulary.size) for _ in range(streams - 1))]
            for slot, text in enumerate(texts):
                text.logits = []
                model.truncate(slot, 0)
                text.read(model, slot, 0, 200, lora)
            for _ in range(STEPS):
                logits = model.decode([text.row(slot) for slot, text in enumerate(texts)], lora)
                for text, values in zip(texts, logits, strict=True):
                    text.logits.append(values.copy())
            runs.append(watched.logits)
        assert all(np.array_equal(left, right) for left, right in zip(*runs, strict=True)), f"{streams} streams"
        single = alone(model, watched, lora)
        apart[streams] = max(float(np.abs(left - right).max()) for left, right in zip(runs[0], single, strict=True))
        assert [int(values.argmax()) for values in runs[0]] == [int(values.argmax()) for values in runs[1]]
    assert apart[1] == 0
    record_property("largest logit difference to a batch of one, by streams", str(apart))
    print("largest logit difference to a batch of one, by streams:", apart)

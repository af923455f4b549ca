"""What every engine does, whatever computes the tokens. Subclass `EngineContract` and give it an `engine` fixture (started)."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from daemon.engine.base import Capability, Delta, Engine, Event, Finished, GenerateRequest, LoRA
from daemon.errors import BadRequest, ContextOverflow, DataError, Unsupported
from daemon.records import Message, Sampling


def user(text: str) -> tuple[Message, ...]:
    return ({"role": "user", "content": text},)


def request(text: str = "Count to five.", *, max_tokens: int | None = 12, lora: LoRA | None = None, **sampling: object) -> GenerateRequest:
    return GenerateRequest(user(text), Sampling(temperature=0.0, **sampling), max_tokens=max_tokens, lora=lora)  # type: ignore[arg-type]


async def collect(engine: Engine, asked: GenerateRequest) -> tuple[str, Finished]:
    """The whole reply; checks that `Finished` comes once and last."""
    events: list[Event] = [event async for event in engine.generate(asked)]
    last = events[-1]
    assert isinstance(last, Finished)
    assert not any(isinstance(event, Finished) for event in events[:-1])
    return "".join(event.text for event in events if isinstance(event, Delta)), last


class EngineContract:
    """The suite."""

    async def test_a_reply_comes_in_pieces_and_ends_once(self, engine: Engine) -> None:
        text, finished = await collect(engine, request())
        assert text
        assert finished.finish_reason in ("stop", "length")
        assert engine.stats.state == "ready"
        assert engine.model.id

    async def test_greedy_replies_repeat(self, engine: Engine) -> None:
        assert (await collect(engine, request()))[0] == (await collect(engine, request()))[0]

    async def test_max_tokens_bounds_the_reply(self, engine: Engine) -> None:
        _, finished = await collect(engine, request(max_tokens=2))
        assert finished.finish_reason == "length"
        assert finished.usage.completion_tokens <= 2

    async def test_max_tokens_of_nothing_is_refused_by_name(self, engine: Engine) -> None:
        for value in (0, -1):
            with pytest.raises(BadRequest) as caught:
                await collect(engine, request(max_tokens=value))
            assert caught.value.param == "max_tokens"

    async def test_hanging_up_frees_the_place(self, engine: Engine) -> None:
        stream = engine.generate(request(max_tokens=200))
        await anext(stream)
        await stream.aclose()
        for _ in range(100):
            if engine.stats.active == 0:
                break
            await asyncio.sleep(0.02)
        assert engine.stats.active == 0
        assert (await collect(engine, request()))[0]

    async def test_several_at_once_do_not_disturb_one_another(self, engine: Engine) -> None:
        texts = ["Count to five.", "Name a colour.", "Say hello."]
        alone = [(await collect(engine, request(text)))[0] for text in texts]
        together = await asyncio.gather(*(collect(engine, request(text)) for text in texts))
        assert [text for text, _ in together] == alone

    async def test_a_prompt_that_does_not_fit_is_refused_not_cut(self, engine: Engine) -> None:
        with pytest.raises(ContextOverflow, match=r"maximum context length is \d+ tokens"):
            await collect(engine, request("word " * (engine.model.context_tokens + 10)))

    async def test_declared_traces_are_there(self, engine: Engine) -> None:
        asked = request()
        _, finished = await collect(engine, asked)
        if Capability.TOKEN_IDS not in engine.capabilities:
            assert finished.tokens is None
            for call in (engine.tokenize("a"), engine.render(asked.messages)):
                with pytest.raises(Unsupported):
                    await call
            return
        trace = finished.tokens
        assert trace is not None
        assert list(trace.prompt) == await engine.render(asked.messages)
        assert len(trace.completion) == finished.usage.completion_tokens == len(trace.logprobs)
        assert len(trace.prompt) == finished.usage.prompt_tokens
        assert all(math.isfinite(value) and value <= 0 for value in trace.logprobs)

    async def test_scores_have_one_value_a_token_but_the_first(self, engine: Engine) -> None:
        if Capability.SCORE not in engine.capabilities:
            with pytest.raises(Unsupported):
                await engine.score([1, 2])
            return
        tokens = await engine.tokenize("The sky is blue and the grass is green.")
        values = await engine.score(tokens)
        assert len(values) == len(tokens) - 1
        assert all(math.isfinite(value) and value <= 0 for value in values)
        assert await engine.score(tokens) == values

    async def test_a_lora_changes_the_reply_and_its_absence_brings_the_old_one_back(self, engine: Engine, lora: LoRA) -> None:
        if Capability.LORA not in engine.capabilities:
            with pytest.raises(Unsupported):
                await engine.load_lora(lora)
            return
        before = await collect(engine, request())
        await engine.load_lora(lora)
        assert lora.id in engine.stats.loras
        changed = await collect(engine, request(lora=lora))
        assert changed[0] != before[0]
        assert changed == await collect(engine, request(lora=lora)) or changed[1].usage.cached_tokens >= 0
        assert (await collect(engine, request()))[0] == before[0]
        await engine.unload_lora(lora.id)
        assert lora.id not in engine.stats.loras
        await engine.unload_lora(lora.id)  # a second time is harmless

    async def test_a_file_that_is_no_lora_is_refused(self, engine: Engine, tmp_path: Path) -> None:
        bad = tmp_path / "bad.gguf"
        bad.write_bytes(b"not a model at all")
        if Capability.LORA in engine.capabilities:
            with pytest.raises(DataError):
                await engine.load_lora(LoRA("0" * 64, bad))
            assert (await collect(engine, request()))[0]

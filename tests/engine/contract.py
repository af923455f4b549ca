"""What every engine does, whatever computes the tokens. Subclass `EngineContract` and give it an `engine` fixture (started)."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from daemon.engine.base import Capability, Delta, Engine, Event, Finished, GenerateRequest, LoRA
from daemon.errors import BadRequest, ContextOverflow, DataError, Unsupported
from daemon.gateway.reply import ReplyBuilder
from daemon.records import JSON, JSONObject, Message, Sampling
from tests.engine.examples import PERSON, PERSON_FORMAT, WEATHER, part


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


def _bytes(value: JSON) -> bytes:
    return bytes(each for each in value if isinstance(each, int)) if isinstance(value, list) else b""


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

    async def test_pieces_spell_what_was_read(self, engine: Engine) -> None:
        text = "Zürich: naïve café, 東京 🙂"
        if Capability.TOKEN_IDS not in engine.capabilities:
            with pytest.raises(Unsupported):
                await engine.pieces([1])
            return
        tokens = await engine.tokenize(text)
        pieces = await engine.pieces(tokens)
        assert len(pieces) == len(tokens) and text.encode() in b"".join(pieces)
        rendered = await engine.render(({"role": "user", "content": text},))
        assert text.encode() in b"".join(await engine.pieces(rendered))
        assert await engine.pieces([]) == []

    async def test_log_probabilities_are_shown_with_every_token_or_refused(self, engine: Engine) -> None:
        asked = replace(request(max_tokens=6), top_logprobs=2)
        try:
            events = [event async for event in engine.generate(asked)]
        except Unsupported as error:
            assert error.param == "logprobs" and Capability.LOGPROBS not in engine.capabilities
            return
        shown = [entry for event in events if isinstance(event, Delta) for entry in event.logprobs]
        text = "".join(event.text for event in events if isinstance(event, Delta))
        assert b"".join(_bytes(entry["bytes"]) for entry in shown).decode(errors="replace").strip() == text.strip()
        for entry in shown:
            value, others = entry["logprob"], entry["top_logprobs"]
            assert isinstance(value, float) and math.isfinite(value) and value <= 0
            assert isinstance(others, list) and len(others) <= 2 and all(isinstance(other, dict) and "token" in other for other in others)
        plain = [event async for event in engine.generate(request(max_tokens=6))]
        assert not any(event.logprobs for event in plain if isinstance(event, Delta)), "only where asked for"

    async def test_a_reply_held_to_a_schema_validates(self, engine: Engine) -> None:
        asked = replace(request("Who is it? Answer in JSON.", max_tokens=60), response_format=PERSON_FORMAT)
        if Capability.STRUCTURE not in engine.capabilities:
            with pytest.raises(Unsupported):
                await collect(engine, asked)
            return
        text, finished = await collect(engine, asked)
        assert finished.finish_reason == "stop"
        jsonschema.validate(json.loads(text), PERSON)

    async def test_a_forced_call_names_the_tool_and_its_arguments_validate(self, engine: Engine) -> None:
        asked = replace(request("How is the weather in Rome?", max_tokens=80), tools=(WEATHER,), tool_choice="required")
        if Capability.STRUCTURE not in engine.capabilities:
            with pytest.raises(Unsupported):
                await collect(engine, asked)
            return
        builder = ReplyBuilder()
        async for event in engine.generate(asked):
            if isinstance(event, Delta):
                builder.add(event)
        calls = builder.message()["tool_calls"]
        assert isinstance(calls, list) and isinstance(calls[0], dict)
        function = part(calls[0], "function")
        assert function["name"] == "weather"
        jsonschema.validate(json.loads(str(function["arguments"])), part(WEATHER, "function", "parameters"))

    async def test_a_tools_result_can_be_handed_back(self, engine: Engine) -> None:
        call: JSONObject = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
        history: tuple[Message, ...] = (
            *user("How is the weather in Rome?"),
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Sunny, 24 degrees."},
            *user("So?"),
        )
        for tools in ((WEATHER,), ()):
            asked = GenerateRequest(history, Sampling(temperature=0.0), max_tokens=12, tools=tools)
            assert (await collect(engine, asked))[1].finish_reason in ("stop", "length", "tool_calls")

    async def test_a_plain_text_is_gone_on_with(self, engine: Engine) -> None:
        asked = GenerateRequest((), Sampling(temperature=0.0), max_tokens=6, text="One, two, three,")
        text, finished = await collect(engine, asked)
        assert text and finished.usage.completion_tokens <= 6
        filling = replace(asked, suffix=" five, six")
        if Capability.FILL_IN_MIDDLE in engine.capabilities:
            assert (await collect(engine, filling))[1].finish_reason in ("stop", "length")
        else:
            with pytest.raises(Unsupported):
                await collect(engine, filling)

    async def test_vectors_have_unit_length_or_are_refused(self, engine: Engine) -> None:
        if Capability.EMBEDDINGS not in engine.capabilities:
            with pytest.raises(Unsupported):
                await engine.embed(("a",))
            return
        first = await engine.embed(("The sky is blue.", "Stones are heavy.", "The sky is blue."))
        assert len(first.vectors) == 3 and first.tokens > 0
        assert all(math.isclose(math.hypot(*vector), 1, abs_tol=1e-4) for vector in first.vectors)
        assert first.vectors[0] == pytest.approx(first.vectors[2], abs=1e-4) and first.vectors[0] != pytest.approx(
            first.vectors[1], abs=1e-3
        )

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

"""The embedded model held to JSON schemas and to calls, greedy and hot: every reply parses, validates and says why it ended."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator

import jsonschema
import pytest
import pytest_asyncio

from daemon.engine.base import Delta, Finished, GenerateRequest
from daemon.engine.llama.engine import LlamaEngine
from daemon.engine.llama.protocol import WorkerSettings
from daemon.errors import BadRequest
from daemon.gguf import read_header
from daemon.models import embedded_model
from daemon.records import JSON, JSONObject, Sampling
from tests.engine.contract import collect, user

pytestmark = pytest.mark.e2e

PERSON: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 30}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS: list[JSONObject] = [
    PERSON,
    {"type": "object", "properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 12}, "maxItems": 3}}},
    {
        "type": "object",
        "properties": {"colour": {"enum": ["red", "green", "blue"]}, "ok": {"type": "boolean"}},
        "required": ["colour", "ok"],
    },
    {"type": "object", "properties": {"who": {"$ref": "#/$defs/p"}}, "required": ["who"], "$defs": {"p": PERSON}},
    {"type": "object", "properties": {"people": {"type": "array", "items": PERSON, "minItems": 2, "maxItems": 2}}, "required": ["people"]},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 3, "maxItems": 5},
    {"type": "array", "prefixItems": [{"type": "boolean"}, {"type": "null"}], "items": False, "minItems": 2},
    {"type": "string", "maxLength": 20},
    {"type": "string", "pattern": "^[A-Z][a-z]{2,9}$"},
    {"type": "string", "pattern": "^\\d{3}-\\d{4}$"},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "ipv4"},
    {"type": "integer", "multipleOf": 5, "minimum": 10, "maximum": 50},
    {"type": "number", "minimum": -1, "maximum": 1, "multipleOf": 0.25},
    {"type": "boolean"},
    {"type": "null"},
    {"const": {"fixed": [1, "é🐚", None]}},
    {"anyOf": [PERSON, {"type": "string", "maxLength": 9}]},
    {
        "oneOf": [
            {"type": "integer", "minimum": 1, "maximum": 9},
            {"type": "object", "properties": {"n": {"type": "null"}}, "required": ["n"]},
        ]
    },
    {"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"type": "boolean"}}, "required": ["b"]}]},
    {"type": "object", "additionalProperties": {"type": "boolean"}, "minProperties": 1, "maxProperties": 3},
    {"type": ["string", "null"], "maxLength": 5},
]
TOOLS: list[JSONObject] = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather in a city.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]}},
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "get_time", "description": "The time now."}},
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LlamaEngine]:
    settings = WorkerSettings(model=embedded_model(), context_tokens=2048, streams=4, threads=2, gpu_layers=0)
    llama = LlamaEngine(settings, read_header(embedded_model()), "embedded", tmp_path_factory.mktemp("engine") / "engine.log")
    await llama.start()
    yield llama
    await llama.stop()


def _asked(text: str, schema: JSON = None, *, temperature: float = 0.0, max_tokens: int = 200, **fields: object) -> GenerateRequest:
    wanted: JSON = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    form = {} if schema is None else {"response_format": wanted}
    return GenerateRequest(user(text), Sampling(temperature, seed=5), max_tokens=max_tokens, **form, **fields)  # type: ignore[arg-type]


def _validate(value: JSON, schema: JSONObject) -> None:
    jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER).validate(value)


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.asyncio(loop_scope="module")
async def test_every_reply_validates(engine: LlamaEngine, temperature: float) -> None:
    asked = [_asked(f"Answer in JSON. Example {index}.", schema, temperature=temperature) for index, schema in enumerate(SCHEMAS)]
    places = asyncio.Semaphore(4)

    async def ask(each: GenerateRequest) -> tuple[str, Finished]:
        async with places:
            return await collect(engine, each)

    for schema, (text, finished) in zip(SCHEMAS, await asyncio.gather(*map(ask, asked)), strict=True):
        assert finished.finish_reason == "stop", (schema, text)
        _validate(json.loads(text), schema)


@pytest.mark.asyncio(loop_scope="module")
async def test_json_that_has_no_room_ends_by_length(engine: LlamaEngine) -> None:
    text, finished = await collect(engine, _asked("A person?", PERSON, max_tokens=4))
    assert finished.finish_reason == "length" and text.startswith("{") and len(text) > 1


@pytest.mark.asyncio(loop_scope="module")
async def test_any_json_object(engine: LlamaEngine) -> None:
    request = _asked("Describe a cat in JSON with two short fields.", response_format={"type": "json_object"}, max_tokens=120)
    text, finished = await collect(engine, request)
    if finished.finish_reason == "stop":
        assert isinstance(json.loads(text), dict)
    assert text.startswith("{")


@pytest.mark.parametrize("temperature", [0.0, 1.5])
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_weather"}}])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_that_must_come_comes(engine: LlamaEngine, choice: JSON, temperature: float) -> None:
    request = _asked("What is it like in Oslo?", temperature=temperature, tools=tuple(TOOLS), tool_choice=choice, parallel_tool_calls=False)
    deltas = [event async for event in engine.generate(request)]
    finished = deltas[-1]
    assert isinstance(finished, Finished) and finished.finish_reason == "tool_calls" and not finished.note
    assert not "".join(event.text for event in deltas if isinstance(event, Delta)).strip()
    pieces = [call["function"] for event in deltas if isinstance(event, Delta) for call in event.tool_calls]
    functions = [piece for piece in pieces if isinstance(piece, dict)]
    name = "".join(str(piece.get("name", "")) for piece in functions)
    arguments = json.loads("".join(str(piece.get("arguments", "")) for piece in functions))
    assert name == "get_weather" or (choice == "required" and name == "get_time")
    if name == "get_weather":
        assert isinstance(arguments["city"], str) and arguments.get("unit") in ("celsius", "fahrenheit", None)
    else:
        assert arguments == {}


@pytest.mark.asyncio(loop_scope="module")
async def test_what_cannot_be_held_is_refused_while_others_go_on(engine: LlamaEngine) -> None:
    running = asyncio.create_task(collect(engine, _asked("Tell me a story.", max_tokens=40)))
    refused: list[tuple[JSONObject, str]] = [
        ({"properties": {"age": {"not": {}}}}, "response_format.json_schema.schema.properties.age.not"),
        ({"type": "string", "pattern": "(?=x)"}, "response_format.json_schema.schema.pattern"),
    ]
    for schema, param in refused:
        with pytest.raises(BadRequest) as caught:
            await collect(engine, _asked("x", schema))
        assert caught.value.param == param and len(caught.value.message) < 500
    text, finished = await running
    assert text and finished.finish_reason in ("stop", "length")


@pytest.mark.asyncio(loop_scope="module")
async def test_log_probabilities_are_the_models_own_also_under_a_schema(engine: LlamaEngine) -> None:
    events = [event async for event in engine.generate(_asked("A person?", PERSON, top_logprobs=3))]
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.tokens is not None
    text = "".join(event.text for event in events if isinstance(event, Delta))
    entries = [entry for event in events if isinstance(event, Delta) for entry in event.logprobs]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode() == text  # type: ignore[arg-type]
    assert [entry["logprob"] for entry in entries] == list(finished.tokens.logprobs[: len(entries)])
    for entry in entries:
        top = entry["top_logprobs"]
        assert isinstance(top, list) and len(top) == 3
        shares = [math.exp(float(str(each["logprob"]))) for each in top if isinstance(each, dict)]
        assert len(shares) == 3 and shares == sorted(shares, reverse=True) and sum(shares) <= 1 + 1e-4
    assert finished.tokens.logprobs[0] < -0.5  # the model itself would not begin so


@pytest.mark.asyncio(loop_scope="module")
async def test_bias_and_alternatives(engine: LlamaEngine) -> None:
    request = GenerateRequest(user("Say a word."), Sampling(0.0), max_tokens=3, top_logprobs=0)
    events = [event async for event in engine.generate(request)]
    finished = events[-1]
    assert isinstance(finished, Finished) and finished.tokens is not None
    first = finished.tokens.completion[0]
    assert [entry["top_logprobs"] for event in events if isinstance(event, Delta) for entry in event.logprobs] == [[], [], []]
    banned = GenerateRequest(user("Say a word."), Sampling(0.0, logit_bias=((first, -100.0),)), max_tokens=3)
    _, other = await collect(engine, banned)
    assert other.tokens is not None and first not in other.tokens.completion
    with pytest.raises(BadRequest) as caught:
        await collect(engine, GenerateRequest(user("x"), Sampling(logit_bias=((10**9, 1.0),))))
    assert caught.value.param == "logit_bias"


@pytest.mark.asyncio(loop_scope="module")
async def test_a_seed_draws_the_same_alone_and_beside_others(engine: LlamaEngine) -> None:
    asked = GenerateRequest(user("Tell me a story."), Sampling(1.0, top_p=0.95, min_p=0.02, seed=11, repeat_penalty=1.1), max_tokens=30)
    others = [_asked("A person?", PERSON, temperature=1.5, max_tokens=40), _asked("Count.", max_tokens=25)]
    _, alone = await collect(engine, asked)
    (_, beside), *_ = await asyncio.gather(*(collect(engine, each) for each in (asked, *others)))
    assert alone.tokens is not None and beside.tokens is not None
    assert alone.tokens.completion == beside.tokens.completion
    assert alone.tokens.logprobs == beside.tokens.logprobs

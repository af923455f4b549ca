"""Another server on the messages wire: requests made for it, and what it says that is no plain reply."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.messages.reply import MessagesReader
from daemon.engine.upstream.messages.request import DEFAULT_MAX_TOKENS, body_of
from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, ReefError, Unsupported
from daemon.gateway.wires.messages.request import parse
from daemon.records import JSONObject, Message, Sampling
from tests.engine.examples import PERSON, PERSON_FORMAT, WEATHER

CALL: JSONObject = {"id": "functions.weather:0", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}
PICTURE = "data:image/png;base64,aGk="
HISTORY: tuple[Message, ...] = (
    {"role": "system", "content": "Be brief."},
    {"role": "developer", "content": "And kind."},
    {"role": "user", "content": [{"type": "text", "text": "What is it?"}, {"type": "image_url", "image_url": {"url": PICTURE}}]},
    {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "functions.weather:0", "content": "rain", "is_error": True},
    {"role": "user", "content": "And now?"},
    {"role": "system", "content": "It is late."},
)


def made(**changes: Any) -> Any:
    return body_of(replace(GenerateRequest(HISTORY), **changes), "m")


def test_a_conversation_becomes_turns_of_blocks() -> None:
    body = made()
    assert body["system"] == [{"type": "text", "text": "Be brief."}, {"type": "text", "text": "And kind."}]
    assert [turn["role"] for turn in body["messages"]] == ["user", "assistant", "user"]
    assert body["messages"][0]["content"][1] == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    use = {"type": "tool_use", "id": "functions_weather_0", "name": "weather", "input": {"city": "Paris"}}
    assert body["messages"][1]["content"] == [use], "no reasoning: its signature is not known"
    result, *rest = body["messages"][2]["content"]
    assert (result["tool_use_id"], result["is_error"]) == ("functions_weather_0", True)
    assert [block["text"] for block in rest] == ["And now?", "<system>", "It is late.", "</system>"]
    assert (body["model"], body["stream"], body["max_tokens"]) == ("m", True, DEFAULT_MAX_TOKENS)
    assert body["tool_choice"] == {"type": "none"} and body["tools"][0]["name"] == "weather", "a history of calls needs tools"
    assert not {"temperature", "top_p", "top_k", "stop_sequences"} & body.keys()


def test_what_the_client_set_arrives() -> None:
    sampling = Sampling(temperature=1.7, top_p=0.9, top_k=3, stop=("END", "\n"), seed=3, presence_penalty=1)
    body = made(sampling=sampling, tools=(WEATHER,), max_tokens=9, response_format=PERSON_FORMAT, parallel_tool_calls=False)
    assert (body["temperature"], body["top_p"], body["top_k"], body["stop_sequences"]) == (1.0, 0.9, 3, ["END"])
    assert body["output_config"]["format"] == {"type": "json_schema", "schema": PERSON}
    assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True} and body["max_tokens"] == 9
    assert made(tools=(WEATHER,), tool_choice="required")["tool_choice"] == {"type": "any"}
    named = {"type": "function", "function": {"name": "weather"}}
    assert made(tools=(WEATHER,), tool_choice=named)["tool_choice"] == {"type": "tool", "name": "weather"}
    assert "tool_choice" not in made(tools=(WEATHER,))


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"text": "x", "messages": ()}, "prompt"),
        ({"top_logprobs": 1}, "logprobs"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"messages": ({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]},)}, "messages"),
    ],
)
def test_what_it_cannot_say_is_refused(change: dict[str, Any], param: str) -> None:
    with pytest.raises(Unsupported) as caught:
        made(**change)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 8 maximum"}, ContextOverflow),
        ({"type": "invalid_request_error", "message": "no"}, BadRequest),
        ({"type": "rate_limit_error", "message": "slow"}, Busy),
        ({"type": "overloaded_error", "message": "much"}, EngineError),
        ("odd", EngineError),
        (None, EngineError),
    ],
)
def test_an_error_in_the_stream_keeps_its_meaning(error: object, kind: type[ReefError]) -> None:
    with pytest.raises(kind):
        MessagesReader().take(json.dumps({"type": "error", "error": error}))
    with pytest.raises(kind):
        MessagesReader().take_whole({"type": "error", "error": error})  # type: ignore[dict-item]


json_values = st.recursive(st.none() | st.booleans() | st.integers(-2, 3) | st.text(max_size=3), lambda inner: st.lists(inner, max_size=2))
events = st.fixed_dictionaries(
    {
        "type": st.sampled_from(
            ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop"]
        )
    },
    optional={
        name: json_values
        | st.fixed_dictionaries(
            {},
            optional={
                field: json_values | st.just("tool_use")
                for field in ("type", "usage", "id", "name", "input", "text", "stop_reason", "partial_json")
            },
        )
        for name in ("index", "message", "content_block", "delta", "usage")
    },
)


@given(st.lists(events, max_size=8))
@settings(max_examples=60, deadline=None)
def test_whatever_it_says_there_is_a_reply_or_an_error_of_ours(said: list[dict[str, Any]]) -> None:
    reader = MessagesReader()
    try:
        for event in said:
            reader.take(json.dumps(event))
        reader.finished()
    except ReefError:
        pass
    with pytest.raises(EngineError):
        MessagesReader().take("[]")


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(lambda text: bool(text.strip()))


@given(st.lists(st.tuples(TEXT, TEXT, st.booleans()), min_size=1, max_size=4), TEXT)
@settings(max_examples=60, deadline=None)
def test_there_and_back_a_conversation_says_the_same(turns: list[tuple[str, str, bool]], last: str) -> None:
    """A chat made to a messages request and read as one again; what follows a call is its result."""
    chat: list[Message] = [{"role": "system", "content": "Be brief."}]
    for index, (asked, said, calls) in enumerate(turns):
        chat.append({"role": "user", "content": asked})
        chat.append({"role": "assistant", "content": said})
        if calls:
            function: JSONObject = {"name": "f", "arguments": json.dumps({"x": asked}, ensure_ascii=False)}
            chat[-1]["tool_calls"] = [{"id": f"call_{index}", "type": "function", "function": function}]
            chat.append({"role": "tool", "content": said, "tool_call_id": f"call_{index}"})
    chat.append({"role": "user", "content": last})
    again = parse({**body_of(GenerateRequest(tuple(chat)), "m")})
    assert list(again.messages) == chat

"""Another server on the responses wire: requests made for it, and its replies, however much of them it streams."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Delta, Finished, GenerateRequest
from daemon.engine.upstream.responses.reply import ResponsesReader
from daemon.engine.upstream.responses.request import body_of
from daemon.errors import ContextOverflow, EngineError, ReefError
from daemon.gateway.reply import ReplyBuilder
from daemon.gateway.wires.responses.request import parse
from daemon.records import JSON, JSONObject, Message, Sampling, Usage
from tests.engine.examples import PERSON, WEATHER
from tests.gateway.test_responses_reply import played, replies

CALL: JSONObject = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Paris"}'}}


def read(events: list[JSONObject]) -> tuple[list[Delta], Finished]:
    reader, deltas = ResponsesReader(), list[Delta]()
    for event in events:
        assert not reader.closing
        deltas += [delta for delta in reader.take(json.dumps(event)) if isinstance(delta, Delta)]
    assert reader.closing
    return deltas, reader.finished()


def message_of(deltas: list[Delta]) -> Message:
    builder = ReplyBuilder()
    for delta in deltas:
        builder.add(delta)
    return builder.message()


@given(replies(), st.booleans(), st.sampled_from(["all", "no deltas", "only the last"]))
@settings(max_examples=40, deadline=None)
def test_a_reply_is_understood_however_much_of_it_is_streamed(reply: tuple[list[Delta], str], summary: bool, streamed: str) -> None:
    deltas, reason = reply
    body: JSONObject = {"model": "m", "reasoning": {"summary": "auto" if summary else None}, "include": ["message.output_text.logprobs"]}
    events, whole = played(body, deltas, reason)
    if streamed == "no deltas":
        events = [event for event in events if not str(event["type"]).endswith(".delta")]
    elif streamed == "only the last":
        events = events[-1:]
    expected = message_of(deltas)
    calls = bool(expected.get("tool_calls"))
    found, finished = read(events)
    assert message_of(found) == expected
    assert finished == Finished("tool_calls" if calls and reason == "stop" else reason, Usage(5, 7, 3, 2))
    said = [each for delta in found for each in delta.logprobs]
    assert [each["token"] for each in said] == [each["token"] for delta in deltas for each in delta.logprobs]
    reader = ResponsesReader()
    assert message_of([delta for delta in reader.take_whole(whole) if isinstance(delta, Delta)]) == expected
    assert reader.finished() == finished


def test_a_tool_that_is_no_function_is_recorded_as_a_call_with_its_input() -> None:
    item: JSONObject = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "apply_patch", "input": ""}
    events: list[JSONObject] = [
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.custom_tool_call_input.delta", "output_index": 0, "delta": "*** Begin"},
        {"type": "response.output_item.done", "output_index": 0, "item": {**item, "input": "*** Begin"}},
        {"type": "response.completed", "response": {"output": [{**item, "input": "*** Begin"}]}},
    ]
    deltas, finished = read(events)
    arguments = '{"input": "*** Begin"}'
    assert message_of(deltas)["tool_calls"] == [
        {"id": "c1", "type": "function", "function": {"name": "apply_patch", "arguments": arguments}}
    ]
    assert finished.finish_reason == "tool_calls"


def test_what_cannot_be_a_reply_is_an_error_and_nothing_else() -> None:
    for data in ("<html>", "3", "[1]", '"x"', "null", '{"type":' * 2000):
        with pytest.raises(EngineError):
            ResponsesReader().take(data)
    odd: list[JSON] = [{}, {"type": 3}, {"type": "response.output_item.added"}, {"type": "response.output_text.delta", "delta": 3}]
    odd += [{"type": "response.output_item.done", "output_index": "x", "item": {"type": "message", "content": [3]}}, {"type": "unknown"}]
    reader = ResponsesReader()
    for event in odd:
        assert reader.take(json.dumps(event)) == []
    with pytest.raises(EngineError, match="broke off"):
        reader.finished()
    for body in ({}, {"output": 3}):
        with pytest.raises(EngineError):
            ResponsesReader().take_whole(body)


@pytest.mark.parametrize(
    ("event", "kind", "said"),
    [
        ({"type": "response.failed", "response": {"error": {"code": "server_error", "message": "out of memory"}}}, EngineError, "memory"),
        ({"type": "response.failed", "response": {}}, EngineError, "status"),
        ({"type": "error", "code": "context_length_exceeded", "message": "too long"}, ContextOverflow, "too long"),
        ({"type": "error", "error": {"message": "slow down"}}, EngineError, "slow down"),
    ],
)
def test_a_failure_is_told_in_the_servers_words(event: JSONObject, kind: type[ReefError], said: str) -> None:
    with pytest.raises(kind, match=said):
        ResponsesReader().take(json.dumps(event))
    failed: JSONObject = {"status": "failed", "error": {"message": "no"}, "output": []}
    with pytest.raises(EngineError, match="no"):
        ResponsesReader().take_whole(failed)


def test_a_request_says_all_that_was_asked() -> None:
    request = GenerateRequest(
        messages=({"role": "user", "content": "who?"},),
        sampling=Sampling(temperature=0.5, top_p=0.9),
        max_tokens=9,
        tools=(WEATHER,),
        tool_choice={"type": "function", "function": {"name": "weather"}},
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}},
        top_logprobs=2,
        extra={"reasoning_effort": "low", "verbosity": "high"},
    )
    body = body_of(request, "theirs")
    assert (body["model"], body["stream"], body["store"]) == ("theirs", True, False)
    call = parse(body)
    assert (call.messages, call.max_tokens, call.tool_choice) == (request.messages, 9, request.tool_choice)
    assert (call.response_format, call.top_logprobs, call.parallel_tool_calls) == (request.response_format, 2, False)
    assert (call.sampling.temperature, call.sampling.top_p, call.extra) == (0.5, 0.9, request.extra)
    tools = body["tools"]
    assert isinstance(tools, list) and isinstance(tools[0], dict) and tools[0]["strict"] is False, "true is the wire's default"
    plain = body_of(GenerateRequest(messages=request.messages), "theirs")
    assert set(plain) == {"model", "stream", "store", "input", "temperature"}


def test_a_conversation_arrives_as_it_was() -> None:
    picture: JSONObject = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
    file: JSONObject = {"type": "file", "file": {"file_data": "AA==", "filename": "a.pdf"}}
    messages: tuple[Message, ...] = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "what?"}, picture, file]},
        {"role": "assistant", "content": "I look.", "reasoning_content": "Hm.", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
        {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "see"}, picture]},
        {"role": "assistant", "content": "Sun."},
        {"role": "user", "content": "thanks"},
    )
    assert parse(body_of(GenerateRequest(messages=messages), "m")).messages == messages

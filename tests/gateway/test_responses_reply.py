"""The events of a reply on the responses wire: whoever puts them together has the reply that is given whole."""

from __future__ import annotations

import json
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from daemon.engine.base import Delta
from daemon.errors import ContextOverflow, EngineError
from daemon.gateway.reply import ReplyBuilder
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.responses.reply import ResponsesReply
from daemon.records import JSON, Inference, JSONObject, Message, Usage

RECORD = "rec_06h2kw7kzwvxh6t6c50y14ra"
EVENT: TypeAdapter[ResponseStreamEvent] = TypeAdapter(ResponseStreamEvent)
TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)
ARGUMENTS = st.dictionaries(st.sampled_from(["city", "path"]), st.text(max_size=8), max_size=2).map(json.dumps)
CUT = {"length": "max_output_tokens", "content_filter": "content_filter"}


@st.composite
def replies(draw: st.DrawFn) -> tuple[list[Delta], str]:
    """Reasoning, text and calls, each in pieces of any size; and why it ended."""
    deltas = [Delta(reasoning=text) for text in draw(st.lists(TEXT, max_size=3))]
    deltas += [Delta(text=text, logprobs=(entry(text),)) for text in draw(st.lists(TEXT, max_size=3))]
    for index in range(draw(st.integers(0, 3))):
        arguments = draw(ARGUMENTS)
        cuts = sorted(draw(st.lists(st.integers(0, len(arguments)), max_size=3)))
        pieces = [arguments[start:end] for start, end in zip([0, *cuts], [*cuts, len(arguments)], strict=True)]
        named: JSONObject = {"index": index, "id": f"call_{index}", "function": {"name": f"f{index}", "arguments": pieces[0]}}
        deltas.append(Delta(tool_calls=(named,)))
        deltas += [Delta(tool_calls=({"index": index, "function": {"arguments": piece}},)) for piece in pieces[1:]]
    return deltas, draw(st.sampled_from(["stop", "length", "content_filter"]))


def entry(text: str) -> JSONObject:
    return {"token": text, "logprob": -0.5, "bytes": list(text.encode()), "top_logprobs": []}


def done(reply: Message, reason: str, logprobs: tuple[JSONObject, ...] = ()) -> Done:
    record = Inference(RECORD, "default", "s", 0.0, "r1", None, "m", "responses", (), None, reply, reason)
    return Done(record, logprobs)


def played(body: JSONObject, deltas: Sequence[Delta], reason: str) -> tuple[list[JSONObject], JSONObject]:
    """The events of a stream, and the same reply whole."""
    builder, usage = ReplyBuilder(), Usage(5, 7, 3, 2)
    reef: JSONObject = {"agent_record_id": RECORD}
    form = ResponsesReply(RECORD, body)
    frames = form.opening(0)
    for delta in deltas:
        frames += form.piece(0, Piece(builder.add(delta), delta.logprobs))
    ended = done(builder.message(), reason, tuple(each for delta in deltas for each in delta.logprobs))
    frames += form.ending(0, [ended], usage, reef)
    return events_of(frames), ResponsesReply(RECORD, body).whole([ended], usage, reef)


def events_of(frames: Sequence[bytes]) -> list[JSONObject]:
    found = []
    for frame in frames:
        name, data = frame.decode().removesuffix("\n\n").split("\n", 1)
        found.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {found[-1]['type']}"
    return found


def accumulated(events: Sequence[JSONObject]) -> list[JSON]:
    """The output items as a client that believes only the deltas puts them together."""
    items: dict[JSON, dict[str, str]] = {}
    for event in events:
        place, delta = event.get("output_index"), event.get("delta")
        item = event.get("item")
        if event["type"] == "response.output_item.added" and isinstance(item, dict):
            assert place == len(items) and item["id"]
            items[place] = {"type": str(item["type"]), "said": "", "name": str(item.get("name"))}
        elif isinstance(delta, str):
            items[place]["said"] += delta
    return [dict(item) for item in items.values()]


def said_of(item: JSON) -> JSON:
    assert isinstance(item, dict)
    parts = item.get("content") or item.get("summary")
    part = parts[0] if isinstance(parts, list) and parts else {}
    text = part["text"] if isinstance(part, dict) and "text" in part else item.get("arguments", "")
    return {"type": item["type"], "said": text, "name": str(item.get("name"))}


@given(replies(), st.booleans(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_any_reply_is_the_same_streamed_and_whole(reply: tuple[list[Delta], str], summary: bool, logprobs: bool) -> None:
    deltas, reason = reply
    body: JSONObject = {"model": "m", "input": "x", "reasoning": {"summary": "auto" if summary else None}}
    if logprobs:
        body["include"] = ["message.output_text.logprobs"]
    events, whole = played(body, deltas, reason)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    response = events[-1]["response"]
    assert isinstance(response, dict)
    times = dict.fromkeys(("created_at", "completed_at"))
    assert {**response, "reef": events[-1]["reef"], **times} == {**whole, **times}
    assert response["status"] == ("incomplete" if reason in CUT else "completed")
    assert events[-1]["type"] == f"response.{response['status']}"
    assert response["incomplete_details"] == ({"reason": CUT[reason]} if reason in CUT else None)
    output = response["output"]
    assert isinstance(output, list) and output
    assert accumulated(events) == [said_of(item) for item in output]


@given(replies(), st.booleans())
@settings(max_examples=40, deadline=None)
def test_the_sdk_puts_any_reply_together(reply: tuple[list[Delta], str], summary: bool) -> None:
    """Its own accumulator, which refuses what is out of order; and each event fits the SDK's type."""
    events, whole = played({"model": "m", "input": "x", "reasoning": {"summary": "auto" if summary else None}}, reply[0], "stop")
    state: ResponseStreamState[None] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events:
        state.handle_event(EVENT.validate_python(event))
    found, expected = state._completed_response, Response.model_validate(whole)
    assert found is not None and found.output_text == expected.output_text
    assert [item.type for item in found.output] == [item.type for item in expected.output]


def test_calls_whose_arguments_come_by_turns_lose_nothing() -> None:
    deltas = [
        Delta(tool_calls=({"index": 0, "id": "c0", "function": {"name": "f", "arguments": '{"a":'}},)),
        Delta(tool_calls=({"index": 1, "id": "c1", "function": {"name": "g", "arguments": '{"b":'}},)),
        Delta(tool_calls=({"index": 0, "function": {"arguments": "1}"}},)),
        Delta(tool_calls=({"index": 1, "function": {"arguments": "2}"}},)),
    ]
    events, whole = played({"model": "m"}, deltas, "tool_calls")
    ended = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item["arguments"] for item in ended if isinstance(item, dict)] == ['{"a":1}', '{"b":2}']
    assert whole["output"] == ended


def test_text_after_a_call_is_an_item_of_its_own_and_nothing_is_lost() -> None:
    call: JSONObject = {"index": 0, "id": "c0", "function": {"name": "f", "arguments": "{}"}}
    events, _ = played({"model": "m"}, [Delta(text="a"), Delta(tool_calls=(call,)), Delta(text="b")], "stop")
    response = events[-1]["response"]
    output = response["output"] if isinstance(response, dict) else None
    assert isinstance(output, list)
    assert [said_of(item) for item in output] == [
        {"type": "message", "said": "a", "name": "None"},
        {"type": "function_call", "said": "{}", "name": "f"},
        {"type": "message", "said": "b", "name": "None"},
    ]


def test_log_probabilities_are_those_of_the_text_alone() -> None:
    """Tokens that end the reasoning are shown with the first piece of the text."""
    deltas = [Delta(reasoning="Hm.", logprobs=(entry("Hm."),)), Delta(text="Hi", logprobs=(entry("</think>"), entry("H"), entry("i")))]
    events, whole = played({"model": "m", "top_logprobs": 1}, deltas, "stop")
    response = events[-1]["response"]
    for output in (whole["output"], response["output"] if isinstance(response, dict) else None):
        message = output[1] if isinstance(output, list) else None
        content = message["content"] if isinstance(message, dict) else None
        part = content[0] if isinstance(content, list) else None
        assert isinstance(part, dict) and part["logprobs"] == [entry("H"), entry("i")]


def test_only_what_was_cut_is_incomplete() -> None:
    events, _ = played({"model": "m"}, [Delta(reasoning="I think."), Delta(text="half a sent")], "length")
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert [item.get("status") for item in items if isinstance(item, dict)] == [None, "incomplete"]


def test_a_failure_ends_a_stream_that_had_not_begun_with_the_events_that_clients_wait_for() -> None:
    events = events_of(ResponsesReply(RECORD, {"model": "m"}).failure(EngineError("It broke.", "Try again."), {}))
    assert [event["type"] for event in events] == ["response.created", "response.in_progress", "response.failed"]
    response = events[-1]["response"]
    assert isinstance(response, dict) and response["error"] == {"code": "server_error", "message": "It broke. Try again."}
    assert "reef" not in events[-1]


def test_a_failure_in_mid_reply_keeps_what_was_said_and_names_its_record() -> None:
    form = ResponsesReply(RECORD, {"model": "m"})
    form.opening(0)
    form.piece(0, Piece({"content": "half"}))
    event = events_of(form.failure(ContextOverflow("maximum context length is 5 tokens"), {"agent_record_id": RECORD}))[0]
    response = event["response"]
    assert isinstance(response, dict) and response["status"] == "failed" and event["reef"] == {"agent_record_id": RECORD}
    assert response["error"] == {"code": "context_length_exceeded", "message": "maximum context length is 5 tokens"}
    output = response["output"]
    assert isinstance(output, list) and said_of(output[0]) == {"type": "message", "said": "half", "name": "None"}

"""Any reply of the messages wire is the same streamed and whole, for whoever puts the events together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import RawMessageStreamEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from daemon.engine.base import Delta, Finished
from daemon.engine.upstream.messages.reply import MessagesReader
from daemon.gateway.reply import ReplyBuilder
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.messages.reply import MessagesReply
from daemon.gateway.wires.messages.request import Thinking
from daemon.records import Inference, JSONObject, Usage
from tests.experience.make import inference

EVENT: TypeAdapter[RawMessageStreamEvent] = TypeAdapter(RawMessageStreamEvent)
USAGE = Usage(50, 7, 20, 3)

texts = st.text(st.characters(codec="utf-8"), max_size=12)
arguments = st.dictionaries(
    st.text("abc", min_size=1, max_size=3), st.one_of(texts, st.integers(-5, 5), st.lists(texts, max_size=2)), max_size=3
)


def cut(text: str, places: list[int]) -> Iterator[str]:
    edges = sorted({0, len(text), *(place % (len(text) + 1) for place in places)})
    return (text[start:end] for start, end in pairwise(edges))


@st.composite
def replies(draw: st.DrawFn) -> list[Delta]:
    """Reasoning, text and calls, each cut anywhere; calls may come mixed."""
    places = draw(st.lists(st.integers(0, 50), max_size=4))
    deltas = [Delta(reasoning=piece) for piece in cut(draw(texts), places)]
    deltas += [Delta(text=piece) for piece in cut(draw(texts), places)]
    opening: list[Delta] = []
    rest: list[Delta] = []
    for index, given_arguments in enumerate(draw(st.lists(arguments, max_size=3))):
        call: JSONObject = {"index": index, "id": f"call_{index}", "type": "function", "function": {"name": "tool", "arguments": ""}}
        pieces = [
            Delta(tool_calls=({"index": index, "function": {"arguments": piece}},)) for piece in cut(json.dumps(given_arguments), places)
        ]
        opening.append(Delta(tool_calls=(call,)))
        rest += pieces
    if draw(st.booleans()):  # one after another, as every known server sends them
        for index in range(len(opening)):
            deltas += [opening[index], *(delta for delta in rest if delta.tool_calls[0]["index"] == index)]
        return deltas
    return deltas + opening + draw(st.permutations(rest) if len(opening) > 1 and _single(rest) else st.just(rest))


def _single(deltas: list[Delta]) -> bool:
    """Each call's arguments are one piece, so that their order cannot matter."""
    places = [delta.tool_calls[0]["index"] for delta in deltas]
    return len(places) == len(set(map(str, places)))


def written(deltas: list[Delta], thinking: Thinking) -> tuple[list[bytes], Any, Inference]:
    """The frames of a stream, the whole form, and the record."""
    builder = ReplyBuilder()
    form = MessagesReply("rec_1", "m", thinking)
    frames = form.opening(0)
    for delta in deltas:
        frames += form.piece(0, Piece(builder.add(delta)))
    reason = "tool_calls" if builder.has_tool_calls else "stop"
    record = replace(inference(), reply=builder.message(), finish_reason=reason, usage=USAGE)
    done = Done(record)
    frames += form.ending(0, [done], USAGE, {"agent_record_id": "rec_1"})
    return frames, MessagesReply("rec_1", "m", thinking).whole([done], USAGE, {"agent_record_id": "rec_1"}), record


def data_of(frames: list[bytes]) -> list[Any]:
    return [json.loads(frame.split(b"data: ", 1)[1]) for frame in frames]


@settings(max_examples=60, deadline=None)
@given(replies(), st.sampled_from([Thinking(), Thinking(shown=True), Thinking(shown=True, in_signature=True)]))
def test_what_the_sdk_puts_together_is_the_whole_form(deltas: list[Delta], thinking: Thinking) -> None:
    frames, whole, _ = written(deltas, thinking)
    snapshot = None
    buffers: dict[int, bytes] = {}
    for data in data_of(frames):
        snapshot = accumulate_event(event=EVENT.validate_python(data), current_snapshot=snapshot, json_bufs=buffers)
    assert snapshot is not None
    found = snapshot.to_dict()
    for name in ("id", "type", "role", "model", "stop_reason"):
        assert found[name] == whole[name]
    kept = {"type", "text", "thinking", "signature", "id", "name", "input"}
    content = found["content"]
    assert isinstance(content, list)
    assert [{key: value for key, value in block.items() if key in kept} for block in content] == whole["content"]
    usage = found["usage"]
    assert isinstance(usage, dict) and usage.items() >= whole["usage"].items()


@settings(max_examples=60, deadline=None)
@given(replies())
def test_every_block_is_opened_grows_and_is_closed_once(deltas: list[Delta]) -> None:
    opened: set[object] = set()
    closed: set[object] = set()
    events = data_of(written(deltas, Thinking(shown=True))[0])
    assert [event["type"] for event in events[-2:]] == ["message_delta", "message_stop"]
    for event in events[1:-2]:
        index = event["index"]
        if event["type"] == "content_block_start":
            assert index == len(opened)
            opened.add(index)
        else:
            assert index in opened and index not in closed
            if event["type"] == "content_block_stop":
                closed.add(index)
    assert opened == closed


@settings(max_examples=60, deadline=None)
@given(replies())
def test_our_own_reader_of_the_wire_finds_the_record_in_the_stream_and_in_the_whole(deltas: list[Delta]) -> None:
    frames, whole, record = written(deltas, Thinking(shown=True))
    streamed, at_once = MessagesReader(), MessagesReader()
    found = [event for data in data_of(frames) for event in streamed.take(json.dumps(data))]
    for events, reader in ((found, streamed), (at_once.take_whole(whole), at_once)):
        builder = ReplyBuilder()
        for event in events:
            assert isinstance(event, Delta)
            builder.add(event)
        assert _plain(builder.message()) == _plain(record.reply)
        assert reader.closing and reader.finished() == Finished(record.finish_reason, USAGE)


def _plain(message: Any) -> object:
    """With the arguments of calls as values: their spacing does not matter."""
    calls = message.get("tool_calls") or []
    read = [(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]
    return message.get("content"), message.get("reasoning_content"), read


def test_arguments_that_are_no_object_reach_the_tool_as_text() -> None:
    call: JSONObject = {"index": 0, "id": "call_1", "function": {"name": "tool", "arguments": '{"cut'}}
    _, whole, _ = written([Delta(tool_calls=(call,))], Thinking())
    assert whole["content"] == [{"type": "tool_use", "id": "call_1", "name": "tool", "input": {"arguments": '{"cut'}}]

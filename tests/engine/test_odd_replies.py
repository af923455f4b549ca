"""Another server's reply, in which any one value is of any other type: it is understood or refused, and never our failure."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator

import pytest

from daemon.engine.upstream.chat.reply import ChatReader
from daemon.engine.upstream.messages.reply import MessagesReader
from daemon.engine.upstream.reader import ReplyReader
from daemon.engine.upstream.responses.reply import ResponsesReader
from daemon.errors import ReefError
from daemon.records import JSON

ODD: tuple[JSON, ...] = (None, True, -1, 0.5, 2**70, "", "x", "\ud800", [], ["x"], {}, {"type": ["x"]})
ITEM: JSON = {"type": "message", "id": "m", "role": "assistant", "content": [{"type": "output_text", "text": "hi", "logprobs": []}]}
CALL: JSON = {"type": "function_call", "id": "f", "call_id": "c", "name": "f", "arguments": "{}", "status": "completed"}
USAGE: JSON = {"input_tokens": 1, "output_tokens": 2, "input_tokens_details": {"cached_tokens": 0}}
CHAT: list[JSON] = [
    {"id": "c", "choices": [{"index": 0, "delta": {"content": "hi", "reasoning_content": "so"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}]}}]},
    {"choices": [{"index": 0, "logprobs": {"content": [{"token": "h", "logprob": -1.0, "bytes": [104], "top_logprobs": []}]}}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1, "completion_tokens": 2}},
]
RESPONSES: list[JSON] = [
    {"type": "response.output_item.added", "output_index": 0, "item": ITEM},
    {"type": "response.output_text.delta", "output_index": 0, "delta": "hi", "logprobs": []},
    {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
    {"type": "response.function_call_arguments.delta", "output_index": 1, "delta": "{}"},
    {"type": "response.output_item.done", "output_index": 1, "item": CALL},
    {"type": "response.completed", "response": {"status": "completed", "output": [ITEM, CALL], "usage": USAGE}},
]
MESSAGES: list[JSON] = [
    {"type": "message_start", "message": {"id": "m", "content": [], "usage": {"input_tokens": 1, "output_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use", "id": "t", "name": "f", "input": {}}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "input_json_delta", "partial_json": "{}"}},
    {"type": "content_block_stop", "index": 1},
    {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 9}},
    {"type": "message_stop"},
]


def _changed(value: JSON, odd: JSON) -> Iterator[JSON]:
    """`value` with `odd` in each of its places, one at a time."""
    yield odd
    places = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for place, inside in places:
        for one in _changed(inside, odd):
            made = copy.copy(value)
            made[place] = one  # type: ignore[index]
            yield made


@pytest.mark.parametrize(("reader", "events"), [(ChatReader, CHAT), (ResponsesReader, RESPONSES), (MessagesReader, MESSAGES)])
def test_a_reply_with_any_value_of_another_type_is_understood_or_refused(reader: type[ReplyReader], events: list[JSON]) -> None:
    tried = 0
    for odd in ODD:
        for made in _changed(events, odd):
            reading = reader()
            tried += 1
            try:
                for event in made if isinstance(made, list) else []:
                    reading.take(json.dumps(event))
                reading.finished()
            except ReefError as error:
                assert error.message.endswith((".", "?", "!"))
    assert tried > 200

"""Whatever a line holds, it is a conversation or left out with a reason; nothing else happens."""

from __future__ import annotations

import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, named
from daemon.importing.envelope import judged, said
from daemon.importing.source import recognise
from daemon.importing.transfer import from_json, to_json
from daemon.records import JSON, JSONObject

_CALL: JSONObject = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
_TALK: list[JSON] = [
    {"role": "user", "content": [{"type": "text", "text": "q"}]},
    {"role": "assistant", "content": None, "tool_calls": [_CALL], "function_call": {"name": "f", "arguments": {}}},
    {"role": "tool", "tool_call_id": "c", "content": "r"},
    {"role": "assistant", "content": "a", "weight": 1, "reasoning_content": "t"},
]
_REPLY: JSONObject = {"role": "assistant", "content": "a"}
_STEP: JSONObject = {
    "step_id": 2,
    "source": "agent",
    "message": [{"type": "image", "source": {"media_type": "image/png", "path": "p"}}],
    "timestamp": "2026-01-01T00:00:00Z",
    "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
    "observation": {"results": [{"source_call_id": "c", "content": "r"}]},
    "metrics": {"prompt_tokens": 1},
    "llm_call_count": 1,
    "is_copied_context": False,
}
_TRAJECTORY: JSONObject = {
    "schema_version": "ATIF-v1.7",
    "session_id": "s",
    "agent": {"name": "a", "tool_definitions": [{"function": {}}]},
    "steps": [_STEP],
}
_WHOLE: list[JSONObject] = [
    {"messages": _TALK, "tools": [{"type": "function", "function": {"name": "f"}}], "functions": [{"name": "f"}]},
    {
        "request": {"messages": _TALK, "tools": []},
        "response": {"model": "m", "created": 1, "choices": [{"message": _REPLY, "finish_reason": "stop"}], "usage": {}},
    },
    {"prompt": _TALK, "completion": [_REPLY], "label": True},
    {"prompt": _TALK, "chosen": [_REPLY], "rejected": [_REPLY]},
    {"input": {"messages": _TALK, "tools": []}, "preferred_output": [_REPLY], "non_preferred_output": [_REPLY]},
    {
        "conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": '{"name": "f", "arguments": {}}'}],
        "tools": "[]",
        "system": "s",
        "id": "i",
    },
    {**_TRAJECTORY, "subagent_trajectories": [{**_TRAJECTORY, "trajectory_id": "t"}]},
    {
        "agent_record_id": "r",
        "request_type": "inference",
        "payload": {"messages": _TALK, "response": {"choices": [{"message": _REPLY}]}, "usage": {}, "tags": {"a": "b"}, "created": 1},
    },
    {
        "agent_record_id": "r",
        "request_type": "report",
        "payload": {"references": ["x"], "score": 1, "feedback": {"note": "n"}, "metadata": {}},
    },
    {
        "id": "i",
        "tools": [{}],
        "tags": {"a": "b"},
        "turns": [
            {"added": _TALK, "reply": _REPLY, "score": 1, "feedback": "f"},
            {"added": [], "reply": _REPLY, "parent": 0, "created_at": 1, "usage": {}},
        ],
    },
]
_TEXTS = st.sampled_from(
    [
        "",
        "x",
        "user",
        "assistant",
        "system",
        "tool",
        "agent",
        "human",
        "gpt",
        "function_call",
        "observation",
        "ATIF-v1.7",
        "{}",
        "[1]",
        "\ud800",
        "2026-01-01",
    ]
)
_LEAVES = st.none() | st.booleans() | st.integers(-2, 3) | st.floats(allow_nan=False, allow_infinity=False) | _TEXTS
_VALUES = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXTS, inner, max_size=2), max_leaves=4)


def _places(value: JSON) -> list[tuple[str | int, ...]]:
    """The way to everything inside a value."""
    inside: list[tuple[str | int, JSON]] = []
    if isinstance(value, dict):
        inside = list(value.items())
    elif isinstance(value, list):
        inside = list(enumerate(value))
    return [way for key, child in inside for way in [(key,), *((key, *rest) for rest in _places(child))]]


def _changed(value: JSON, way: tuple[str | int, ...], new: JSON) -> JSON:
    if not way:
        return new
    if isinstance(value, list):
        return [_changed(child, way[1:], new) if index == way[0] else child for index, child in enumerate(value)]
    assert isinstance(value, dict)
    return {name: _changed(child, way[1:], new) if name == way[0] else child for name, child in value.items()}


@st.composite
def broken(draw: st.DrawFn) -> JSON:
    """A whole line with one or two things in it replaced."""
    value: JSON = draw(st.sampled_from(_WHOLE))
    for _ in range(draw(st.integers(1, 2))):
        ways = _places(value)
        if ways:
            value = _changed(value, draw(st.sampled_from(ways)), draw(_VALUES))
    return value


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(broken())
def test_a_broken_line_is_a_conversation_or_left_out(value: JSON) -> None:
    try:
        items = recognise(value)
    except DataError as error:
        assert error.message
        items = []
    for item in items:
        if isinstance(item, ImportedSession):
            try:
                session = named(item)
                assert from_json(json.loads(json.dumps(to_json(session))), "s").turns
            except DataError as error:
                assert error.message
    payload = value.get("payload", value) if isinstance(value, dict) else {}
    if isinstance(payload, dict):
        said(payload)
        judged(payload)
    try:
        from_json(value, "s")
    except DataError as error:
        assert error.message.startswith("'s")

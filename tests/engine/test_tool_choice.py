"""Calls that must come, JSON beside tools, and reasoning before either, over random replies."""

from __future__ import annotations

import json

import pytest

from daemon.engine.llama.formats.hermes import HermesFormat
from daemon.engine.llama.formats.qwen_coder import QwenCoderFormat
from daemon.engine.llama.protocol import GenerateCall
from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject
from tests.engine.walker import accepts, called, constraint, held, structures, walk

CALL = '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>'
TOOLS: list[JSONObject] = [
    {
        "type": "function",
        "function": {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string", "maxLength": 9}}}},
    },
    {"type": "function", "function": {"name": "now"}},
    {"type": "function", "function": {"name": "odd", "parameters": {"properties": {"a": {"contains": {"type": "null"}}}}}},
]


def _called(text: str) -> list[JSONObject]:
    parser = HermesFormat().parser(tuple(TOOLS), "")
    deltas = [*parser.push(text), *parser.finish()]
    assert not parser.note and not any(delta.text.strip() for delta in deltas), text
    names: dict[int, JSONObject] = {}
    for call in (call for delta in deltas for call in delta.tool_calls):
        function = call["function"]
        assert isinstance(function, dict) and isinstance(call["index"], int)
        whole = names.setdefault(call["index"], {"name": "", "arguments": ""})
        for key in ("name", "arguments"):
            whole[key] = f"{whole[key]}{function.get(key) or ''}"
    return list(names.values())


def test_a_call_that_must_come_comes_with_arguments_that_validate() -> None:
    for seed in range(8):
        text = walk(called(TOOLS[:2], "required", parallel=False), seed)
        assert text is not None
        (call,) = _called(text)
        if call["name"] == "now":
            assert json.loads(str(call["arguments"])) == {}
        else:
            assert json.loads(str(call["arguments"])).keys() <= {"path"}


def test_several_calls_only_where_they_may_be_parallel() -> None:
    one, two = (
        '<tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>',
        '\n<tool_call>\n{"name": "read", "arguments": {}}\n</tool_call>',
    )
    for parallel in (True, False):
        for text in (one, one + two):
            assert accepts(called(TOOLS[:2], "required", parallel=parallel), text) is (parallel or text == one)


def test_a_named_tool_is_the_only_one_and_others_do_not_matter() -> None:
    named: JSON = {"type": "function", "function": {"name": "now"}}
    rule = constraint({"tools": TOOLS, "tool_choice": named, "response_format": {"type": "json_object"}})
    assert rule is not None and accepts(rule, CALL)
    assert not accepts(called(TOOLS, named), CALL + "\n" + CALL)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "always"}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function"}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "write"}}}, "tool_choice"),
        ({"tools": TOOLS, "tool_choice": "required"}, "tools.2.function.parameters.properties.a.contains"),
        (
            {"tools": [{"function": {"name": "f", "parameters": {"type": "string"}}}], "tool_choice": "required"},
            "tools.0.function.parameters",
        ),
        ({"response_format": {"type": "xml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": True}}}, "response_format.json_schema.schema"),
    ],
)
def test_what_means_nothing_is_refused_by_name(fields: dict[str, object], param: str) -> None:
    with pytest.raises(BadRequest) as caught:
        constraint(fields)
    assert caught.value.param == param


def test_a_free_reply_is_not_held_to_anything() -> None:
    assert constraint({"tools": TOOLS}) is None
    assert constraint({"tools": TOOLS, "tool_choice": "none", "response_format": {"type": "text"}}) is None


def test_json_may_be_asked_for_while_tools_may_be_called() -> None:
    for choice, call in (("auto", True), ("none", False)):
        fields = {"tools": TOOLS[:2], "tool_choice": choice, "response_format": {"type": "json_object"}}
        for text, allowed in (('{"a": [1]}', True), (CALL, call), ("now", False)):
            rule = constraint(fields)
            assert rule is not None and accepts(rule, text) is allowed


def test_a_tool_that_only_may_be_called_is_not_refused_for_its_schema() -> None:
    odd: list[JSONObject] = [{"contains": {}}, {"pattern": "(?=x)"}]
    for fields in odd:
        tool: JSONObject = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {"a": fields}}}}
        rule = constraint({"tools": [tool], "response_format": {"type": "json_object"}})
        assert rule is not None and accepts(rule, CALL.replace("{}", '{"b": 1}'))
        with pytest.raises(BadRequest):
            called([tool], "required")


def test_what_a_family_cannot_write_is_refused_where_it_must_be_held_to() -> None:
    odd: JSON = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^x"}}}
    fields = {"tools": [{"type": "function", "function": {"name": "now", "parameters": odd}}], "tool_choice": "required"}
    call = GenerateCall.model_validate({"id": 1, "messages": [], **fields})
    with pytest.raises(BadRequest) as caught:
        structures().constraint(call, QwenCoderFormat())
    assert caught.value.param == "tools.0.function.parameters.properties.a.pattern"


def test_a_model_that_reasons_does_so_before_it_is_held() -> None:
    asked: JSON = {"type": "null"}
    for prompt_end, controls, text, allowed in (
        ("<think>\n", (), "hm {} </think>\n\nnull", True),
        ("<think>\n", (), "null", False),
        ("", ("<think>",), "<think>hm</think>null", True),
        ("", ("<think>",), "null", True),
        ("<think>\n\n</think>\n\n", ("<think>",), "<think>hm</think>null", False),
        ("", (), "<think>hm</think>null", False),
    ):
        assert accepts(held(asked, prompt_end=prompt_end, controls=controls), text) is allowed, (prompt_end, text)

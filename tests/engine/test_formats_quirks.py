"""What models of one family or another do beside the book, and what a client gets of it."""

from __future__ import annotations

import json

import pytest

from daemon.engine.llama.formats.families import FORMATS
from daemon.engine.llama.formats.values import json_of_text, types_of
from daemon.records import JSONObject
from tests.engine.replies import LIST, READ, Reply, read_reply, tool

BY_NAME = {known.name: known for known in FORMATS}
WRITE = tool("write", path={"type": "string"}, text={"type": "string"}, count={"type": "integer"})


def _read(name: str, text: str, *, prompt_end: str = "") -> Reply:
    return read_reply(BY_NAME[name], text, tools=(READ, LIST, WRITE), prompt_end=prompt_end)


def test_qwen_coder_arguments_may_hold_tags() -> None:
    value = "<parameter=path>\nx\n</parameter>\n</function> or </parameter> <b>"
    reply = _read("qwen-coder", f"<tool_call>\n<function=write>\n<parameter=text>\n{value}\n</parameter>\n</function>\n</tool_call>")
    assert reply.calls == []  # the inner tags end the call: nobody can tell them apart
    value = "a </parameter> b\n</parameter>\n\nc <tool_call> \n"
    reply = _read("qwen-coder", f"<tool_call>\n<function=write>\n<parameter=text>\n{value}\n</parameter>\n</function>\n</tool_call>")
    assert [json.loads(arguments) for _, arguments in reply.calls] == [{"text": value}]


def test_qwen_coder_thinks_of_a_call() -> None:
    call = "<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>"
    thought = "Like <tool_call>\n<function=read>\n<parameter=path>"
    assert _read("qwen-coder", f"<think>{thought}\n</think>{call}") == Reply("", thought, [("read", '{"path": "a"}')])
    assert _read("qwen-coder", f"<think>So {call}") == Reply("", "So", [("read", '{"path": "a"}')])


def test_qwen_coder_forgets_the_outer_tag() -> None:
    reply = _read("qwen-coder", "I look.\n\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>\n")
    assert reply == Reply("I look.", calls=[("read", '{"path": "a"}')])


def test_an_argument_that_comes_twice_is_no_call() -> None:
    reply = _read(
        "glm", "<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value><arg_key>path</arg_key><arg_value>b</arg_value></tool_call>"
    )
    assert not reply.calls
    assert "twice" in reply.note


def test_mistral_repeats_its_marker() -> None:
    assert _read("mistral", '[TOOL_CALLS][TOOL_CALLS][{"name": "list"}]') == Reply("[TOOL_CALLS]", calls=[("list", "{}")])
    assert _read("mistral", "Done.[TOOL_CALLS]") == Reply("Done.[TOOL_CALLS]")
    assert _read("mistral", "[THINK]Hm.[/THINK]Hello[TOOL_CALLS]list{}") == Reply("Hello", "Hm.", [("list", "{}")])


def test_llama_answers_in_json() -> None:
    for answer in ('{"answer": 1}', '{\n "name": "Ann",\n "age": 3}', '{"names": ["read"]}', "{}", "{ }\n", '{"name'):
        reply = _read("llama3", answer)
        assert reply == Reply(answer)
    assert not _read("llama3", '{"answer": 1}').note


def test_llama_calls_in_other_ways() -> None:
    assert _read("llama3", '<|python_tag|>{"name": "read", "parameters": {"path": "a"}}').calls == [("read", '{"path": "a"}')]
    assert _read("llama3", '<|python_tag|>read.call(path="a;b", limit=2)').calls == [("read", '{"path": "a;b", "limit": 2}')]
    assert _read("llama3", '\n\n{"type": "function", "name": "list", "parameters": {}}\n{"name": "list"}').calls == [("list", "{}")] * 2
    assert _read("llama3", 'Like so: {"name": "list"}') == Reply('Like so: {"name": "list"}')
    assert _read("llama3", "<|python_tag|>print(1)").text == "<|python_tag|>print(1)"


def test_deepseek_calls_out_of_its_reasoning() -> None:
    call = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>list<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    assert _read("deepseek", f"Hm.\n{call}", prompt_end="<｜Assistant｜><think>\n") == Reply("", "Hm.", [("list", "{}")])


def test_harmony_messages() -> None:
    analysis, final = "<|channel|>analysis<|message|>", "<|channel|>final<|message|>"
    following = "<|end|><|start|>assistant"
    assert _read("harmony", f"{analysis}Hm.{following}{final} Hi.") == Reply(" Hi.", "Hm.")
    assert _read("harmony", f"{analysis}A.{following}{analysis}B.{following}{final}C") == Reply("C", "A.\n\nB.")
    call = "<|channel|>commentary to=functions.list <|constrain|>json<|message|>"
    for arguments in ("{}", "<|call|>"):
        reply = _read("harmony", f"<|channel|>commentary<|message|>I look.{following}{call}{arguments}")
        assert reply == Reply("I look.", calls=[("list", "{}")])
    assert _read("harmony", "<|channel|>analysis<|message|>A<|start|>assistant<|channel|>final<|message|>B") == Reply("B", "A")
    assert _read("harmony", "Hi.", prompt_end="<|start|>assistant<|channel|>final<|message|>") == Reply("Hi.")
    assert _read("harmony", "Hm.", prompt_end="<|start|>assistant<|channel|>analysis<|message|>") == Reply("", "Hm.")


def test_harmony_with_broken_headers_is_text() -> None:
    assert _read("harmony", "No header at all.\n") == Reply("No header at all.\n")
    broken = "<|channel|>commentary??<|end|><|start|>assistant<|channel|>final<|message|>Hi."
    assert _read("harmony", broken) == Reply("<|channel|>commentary??\n\nHi.")
    assert _read("harmony", "<|channel|>commentary to=functions.list<|message|>{").note.endswith("cut off.")
    assert _read("harmony", "<|channel|>commentary to=functions.read<|message|>[1]").text.endswith("[1]")
    assert _read("harmony", "<|channel|>final to=user<|message|>Hi.") == Reply("Hi.")


def test_lfm2_writes_python() -> None:
    call = """write(path='it\\'s "x"', text="\\u00e9\\n\\x41", count=-3,)"""
    reply = _read("lfm2", f"<|tool_call_start|>[{call}, list( )]<|tool_call_end|>Done.")
    assert [json.loads(arguments) for _, arguments in reply.calls] == [{"path": 'it\'s "x"', "text": "é\nA", "count": -3}, {}]
    assert reply.text == "Done."
    assert not _read("lfm2", "<|tool_call_start|>[read(path=open('x'))]<|tool_call_end|>").calls
    assert not _read("lfm2", "<|tool_call_start|>[read(path='\\ud800')]<|tool_call_end|>").calls


def test_gemma_nests_values() -> None:
    text = '<|tool_call>call:read{path:<|"|>{a:[]}, <tool_call|><|"|>,limit:{ deep : [ {x:<|"|><|"|>} , -1.5e3 ] } }<tool_call|>'
    assert [json.loads(arguments) for _, arguments in _read("gemma4", text).calls] == [
        {"path": "{a:[]}, <tool_call|>", "limit": {"deep": [{"x": ""}, -1500.0]}}
    ]
    text = """<|tool_call>call:read{path:<|"|>a "b"<|"|>,limit:{"deep":['it\\'s', "x, \\"y\\"]"]}}<tool_call|>"""
    assert [json.loads(arguments) for _, arguments in _read("gemma4", text).calls] == [
        {"path": 'a "b"', "limit": {"deep": ["it's", 'x, "y"]']}}
    ]
    assert not _read("gemma4", '<|tool_call>call:read{path:a b<|"|>}<tool_call|>').calls


def test_functionary_addresses_everybody() -> None:
    assert _read("functionary-3.2", "all\nHello >> you.", prompt_end=">>>") == Reply("Hello >> you.")
    assert _read("functionary-3.2", "all\nI look.>>>list\n{}", prompt_end=">>>") == Reply("I look.", calls=[("list", "{}")])
    assert read_reply(BY_NAME["functionary-3.2"], "all\nHello.", tools=(), prompt_end=">>>") == Reply("Hello.")


def test_words_that_are_no_calls_need_no_note() -> None:
    assert _read("command-r", "Action: run.") == Reply("Action: run.")
    assert not _read("command-r", "Action: run.").note


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "string"}, " 12 ", " 12 "),
        ({"type": "integer"}, " 12 ", 12),
        ({"type": "integer"}, "twelve", "twelve"),
        ({"type": "boolean"}, "True", True),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "integer"]}, "12", "12"),
        ({"type": "object"}, "{'a': (1, True, None)}", {"a": [1, True, None]}),
        ({"type": "array"}, "[1, 'x', \"it's\"]", [1, "x", "it's"]),
        ({"type": "array"}, "[__import__('os')]", "[__import__('os')]"),
        ({}, "12", 12),
        ({}, "None", "None"),
        ({}, "[1", "[1"),
        ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "false", False),
        ({"$ref": "#/$defs/n"}, "3", 3),
        ({"$ref": "#/$defs/loop"}, "3", 3),
        ({"enum": [1, 2]}, "2", 2),
        ({"const": "2"}, "2", "2"),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "integer"}]}, "2", 2),
        ({"type": "number"}, "1e999", "1e999"),
        ({"type": "object"}, '{"a": ' * 200 + "1" + "}" * 200, '{"a": ' * 200 + "1" + "}" * 200),
    ],
)
def test_bare_text_is_what_the_schema_says(schema: JSONObject, text: str, value: object) -> None:
    root: JSONObject = {"$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}}
    assert json.loads(json_of_text(text, types_of(schema, root))) == value

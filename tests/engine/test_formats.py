"""Each family's calls as its models write them, and which family a template belongs to."""

from __future__ import annotations

import json

import pytest

from daemon.engine.llama.formats.families import FORMATS, OURS, format_of
from daemon.engine.llama.formats.marked import MarkedFormat
from tests.engine.family_replies import ARGUMENTS, REPLIES, TOOLS
from tests.engine.replies import Reply, read_reply, tool

BY_NAME = {known.name: known for known in FORMATS}


def _calls(reply: Reply) -> list[tuple[str, object]]:
    return [(name, json.loads(arguments)) for name, arguments in reply.calls]


@pytest.mark.parametrize("name", BY_NAME)
def test_calls_are_read_as_the_family_writes_them(name: str) -> None:
    reply = read_reply(BY_NAME[name], REPLIES[name], tools=TOOLS)
    assert _calls(reply) == [("write", ARGUMENTS), ("list", {})]
    assert (reply.text, reply.reasoning, reply.note) == ("", "", "")


@pytest.mark.parametrize("name", BY_NAME)
def test_reasoning_comes_before_calls(name: str) -> None:
    form = BY_NAME[name]
    begin, end = form.reasoning
    reply = read_reply(form, f"{begin}\nHm.\n{end}\n{REPLIES[name]}", tools=TOOLS)
    assert reply.reasoning == "Hm."
    assert reply.text == ""
    assert len(reply.calls) == 2
    assert read_reply(form, f"\nHm.\n{end}{REPLIES[name]}", tools=TOOLS, prompt_end=f"user{begin}") == reply


@pytest.mark.parametrize("name", BY_NAME)
def test_a_reply_cut_off_in_a_call_is_text(name: str) -> None:
    form, text = BY_NAME[name], REPLIES[name]
    for size in range(1, len(text), 19):
        reply = read_reply(form, text[:size], tools=TOOLS, sizes=(4,))
        assert _calls(reply) in ([], [("write", ARGUMENTS)], [("write", ARGUMENTS), ("list", {})])
        if not reply.calls:
            left = text[:size]
            for mark in form.dropped if isinstance(form, MarkedFormat) else ():
                left = left.replace(mark, "")
            assert "".join(reply.text.split()) == "".join(left.split())


@pytest.mark.parametrize("name", BY_NAME)
def test_a_call_of_an_unknown_tool_is_text_with_a_note(name: str) -> None:
    reply = read_reply(BY_NAME[name], REPLIES[name], tools=(tool("other"),))
    assert not reply.calls
    assert "write" in reply.text
    assert "which is no tool of this request" in reply.note


@pytest.mark.parametrize("name", BY_NAME)
def test_without_tools_a_call_is_text(name: str) -> None:
    reply = read_reply(BY_NAME[name], REPLIES[name], tools=())
    assert not reply.calls
    assert "write" in reply.text or name == "harmony"
    assert not reply.note


@pytest.mark.parametrize("name", BY_NAME)
def test_plain_answers_stay_as_they_are(name: str) -> None:
    form = BY_NAME[name]
    for text in (
        "Hello!",
        " \n Hello,\n\n  world. \n",
        "```python\nimport functools\nif a < b: print(f'{a}')\n```",
        "Call it with [1, 2] or {}.",
        '{"answer": 42}',
        "[1, 2]",
        "a <b>bold</b> word, 1 < 2 > 0 >> 1, <|",
        "",
    ):
        assert read_reply(form, text, tools=TOOLS) == Reply(text), form.name
        assert read_reply(form, text, tools=()) == Reply(text), form.name


TEMPLATES = {
    "harmony": "<|start|>assistant<|channel|>analysis<|message|>",
    "deepseek-dsml": "{%- set dsml_token = '｜DSML｜' -%} '<' + dsml_token + 'function_calls>' ",
    "deepseek-v4": "{%- set dsml_token = '｜DSML｜' -%} '<' + dsml_token + 'tool_calls>' ",
    "deepseek-fenced": "<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + '\\n```json\\n'",
    "deepseek": "'<｜tool▁call▁begin｜>'+ tool['function']['name'] + '<｜tool▁sep｜>'",
    "kimi": "<|tool_call_begin|>{{ id }}<|tool_call_argument_begin|>",
    "gemma4": "'<|tool_call>call:' + name + '{' ... '<|\"|>'",
    "functiongemma": "'<start_function_call>call:' ... '<escape>'",
    "mistral": "[TOOL_CALLS]' + name + '[ARGS]'",
    "mistral-array": "[TOOL_CALLS][",
    "qwen-coder": "<tool_call>\\n<function=example>\\n<parameter=p>",
    "glm": "<tool_call>{name}\n<arg_key>",
    "llama3": """'Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}.'""",
    "lfm2": "List of tools: [",
    "hermes": '{% for tool in tools %}<tool_call>\\n{\\"name\\": <name>, \\"arguments\\": <args>}',
    "unknown": "{% for tool in tools %}<mystery>{{ tool }}</mystery>{% endfor %}",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_templates_are_recognised(name: str) -> None:
    assert format_of(TEMPLATES[name]).name == name


def test_templates_without_tools_are_asked_for_our_own_form() -> None:
    assert format_of(None) is OURS
    assert format_of("") is OURS
    assert format_of("{% for message in messages %}{{ message.content }}{% endfor %}") is OURS

"""Replies of models that call tools in Hermes' way, and what a client gets of them."""

from __future__ import annotations

from daemon.engine.llama.formats.families import format_of
from tests.engine.replies import READ, Reply, read_reply

HERMES = format_of("… <tool_call> … </tool_call> …")


def _read(text: str, *, prompt_end: str = "<|im_start|>assistant\n") -> Reply:
    return read_reply(HERMES, text, prompt_end=prompt_end)


def test_a_call_comes_with_its_arguments_as_written() -> None:
    reply = _read('I look.\n\n<tool_call>\n{"name": "read", "arguments": {"path": "a.py",  "limit": 1.50}}\n</tool_call>')
    assert reply == Reply("I look.", calls=[("read", '{"path": "a.py",  "limit": 1.50}')])


def test_several_calls_in_several_blocks_or_in_one() -> None:
    one = '{"name": "read", "arguments": {"path": "a"}}'
    two = '{"name": "read", "arguments": {"path": "b"}}'
    expected = Reply(calls=[("read", '{"path": "a"}'), ("read", '{"path": "b"}')])
    assert _read(f"<tool_call>\n{one}\n</tool_call>\n<tool_call>\n{two}\n</tool_call>") == expected
    assert _read(f"<tool_call>\n{one}\n{two}\n</tool_call>") == expected
    assert _read(f"<tool_call>[{one}, {two}]</tool_call>") == expected


def test_a_whole_call_needs_no_closing_marker_at_the_end() -> None:
    assert _read('<tool_call>{"name": "read", "arguments": {}}').calls == [("read", "{}")]


def test_arguments_may_hold_the_markers_themselves() -> None:
    arguments = '{"path": "</tool_call> <tool_call>{\\"name\\": \\"read\\"} <think>"}'
    assert _read(f'<tool_call>{{"name": "read", "arguments": {arguments}}}</tool_call>') == Reply(calls=[("read", arguments)])


def test_arguments_as_text_or_left_out() -> None:
    assert _read('<tool_call>{"arguments": "{\\"path\\": \\"a\\"}", "name": "read"}</tool_call>').calls == [("read", '{"path": "a"}')]
    assert _read('<tool_call>{"name": "read"}</tool_call>').calls == [("read", "{}")]
    assert _read('<tool_call>{"name": "read", "": {"path": "a"}}</tool_call>').calls == [("read", "{}")]


def test_what_is_no_call_comes_as_the_text_that_it_is() -> None:
    for text, reason in {
        '<tool_call>{"name": "delete", "arguments": {}}</tool_call>': "no tool of this request",
        '<tool_call>{"name": "read", "arguments": {"path": "a}': "cut off",
        '<tool_call>{"name": "read", "arguments": {"path": "a"}}}</tool_call>': "</tool_call>",
        '<tool_call>{"name": "read", "arguments": {path: 1}}</tool_call>': "not valid JSON",
        '<tool_call>{"name": "read", "arguments": {"path": "a\\q"}}</tool_call>': "not valid JSON",
        '<tool_call>{"name": "read", "arguments": {"limit": 1e999}}</tool_call>': "not valid JSON",
        '<tool_call>{"name": "read", "arguments": [1]}</tool_call>': "no object",
        "<tool_call>\n</tool_call>": "not valid JSON",
        "<tool_call>[]</tool_call>": "nothing",
        "The tag <tool_call> opens a call.": "not valid JSON",
    }.items():
        reply = _read(text)
        assert reply.text == text
        assert not reply.calls
        assert reason in reply.note


def test_a_good_call_after_a_bad_one_is_found() -> None:
    reply = _read('<tool_call>{"name": "read", "arguments": {<tool_call>{"name": "read", "arguments": {}}</tool_call>')
    assert reply.calls == [("read", "{}")]
    assert reply.text == '<tool_call>{"name": "read", "arguments": {'


def test_without_tools_nothing_is_a_call() -> None:
    text = ' \n<tool_call>{"name": "read"}</tool_call>\n'
    assert read_reply(HERMES, text, tools=()) == Reply(text)
    assert read_reply(HERMES, "a\n", tools=(READ,)) == Reply("a\n")


def test_reasoning_is_kept_apart() -> None:
    assert _read("<think>\nHm.\n</think>\n\nYes.") == Reply("Yes.", "Hm.")
    assert _read("Hm.\n</think>\n\nYes.", prompt_end="<|im_start|>assistant\n<think>\n") == Reply("Yes.", "Hm.")
    assert _read("<think>\nHm.</think>Yes.", prompt_end="<|im_start|>assistant\n<think>\n") == Reply("Yes.", "Hm.")
    assert _read("\n\n<think>\n\n</think>\n\nYes.") == Reply("Yes.")
    assert _read("<think>Never ending") == Reply(reasoning="Never ending")
    assert _read('<think>I <tool_call> soon.</think><tool_call>{"name":"read"}</tool_call>') == Reply(
        reasoning="I <tool_call> soon.", calls=[("read", "{}")]
    )


def test_a_word_about_the_marker_is_no_reasoning() -> None:
    assert _read("The tag <think> opens it, </think> closes it.") == Reply("The tag <think> opens it, </think> closes it.")
    assert _read("I am done.", prompt_end="what does <think> mean?<|im_end|>\n<|im_start|>assistant\n") == Reply("I am done.")


def test_reasoning_that_is_not_closed_before_a_call() -> None:
    call = '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'
    expected = Reply(reasoning="I read it.", calls=[("read", '{"path": "a"}')])
    assert _read(f"<think>I read it.\n{call}\n") == expected
    assert _read(f"I read it.\n{call}", prompt_end="<think>\n") == expected
    twice = _read(f"<think>I read it.\n{call}\n{call}")
    assert len(twice.calls) == 2
    # Thought of, not called: the model goes on thinking.
    assert _read(f"<think>Like {call}?\n</think>No.") == Reply("No.", f"Like {call}?")
    assert _read(f"<think>Like {call} or {call}") == Reply(reasoning=f"Like {call} or", calls=[("read", '{"path": "a"}')])
    assert _read(f'<think>Like <tool_call>{{"name": "read", "arguments": {{"path": "</think>{call}') == Reply(
        "", 'Like <tool_call>{"name": "read", "arguments": {"path": "', [("read", '{"path": "a"}')]
    )
    assert _read("<think>Like <tool_call>\n</think>No.") == Reply("No.", "Like <tool_call>")


def test_line_breaks_in_json_strings_are_taken_as_they_stand_and_said() -> None:
    reply = _read('<tool_call>\n{"name": "read",\n "arguments": {"path": "a\n\t\\"b\\n"}}\n</tool_call>')
    assert reply.calls == [("read", '{"path": "a\\n\\t\\"b\\n"}')]
    assert "not escaped" in reply.note


def test_a_call_without_tags() -> None:
    assert _read('{"name": "read", "arguments": {"path": "a"}}').calls == [("read", '{"path": "a"}')]
    assert len(_read('\n{"name": "read", "parameters": {}}\n{"name": "list", "parameters": {}}').calls) == 2
    for answer in ('{"name": "Ann", "arguments": {}}', '{"name": "read"}', '{"name": "read", "arguments": {}', '{"a": 1}', "{"):
        reply = _read(answer)
        assert reply == Reply(answer)
        assert not reply.note

"""Conversations as clients send them, through templates that want them otherwise: nothing is lost, moved or said twice."""

from __future__ import annotations

import json
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.llama.chat.template import ChatTemplate, Conversation
from daemon.engine.llama.chat.tool_prompt import call_text, tool_prompt
from daemon.errors import BadRequest
from daemon.records import JSONObject
from tests.engine import templates

COMPILED = {name: ChatTemplate(source) for name, source in templates.ALL.items()}
READ: JSONObject = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Read a file.",
        "parameters": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "properties": {"title": {"type": "string", "title": "Title"}, "path": {"type": "string", "description": "Where it is."}},
            "required": ["path"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


def render(name: str, *messages: JSONObject, tools: bool = False, generation: bool = False) -> str:
    conversation = Conversation(list(messages), [READ] if tools else [], {}, date(2026, 1, 2), add_generation_prompt=generation)
    return "".join(text for text, _ in COMPILED[name].render(conversation))


def system(content: str) -> JSONObject:
    return {"role": "system", "content": content}


def user(content: str) -> JSONObject:
    return {"role": "user", "content": content}


def said(content: str) -> JSONObject:
    return {"role": "assistant", "content": content}


def called(*paths: str, content: str | None = None, reasoning: str = "") -> JSONObject:
    calls: list[JSONObject] = [
        {"id": f"call_{path}_0123456789abcdef", "type": "function", "function": {"name": "read", "arguments": f'{{"path":"{path}"}}'}}
        for path in paths
    ]
    message: JSONObject = {"role": "assistant", "content": content, "tool_calls": list(calls)}
    return {**message, "reasoning_content": reasoning} if reasoning else message


def gave(path: str, content: str) -> JSONObject:
    return {"role": "tool", "tool_call_id": f"call_{path}_0123456789abcdef", "content": content}


def in_order(text: str, *words: str) -> bool:
    places = [text.find(word) for word in words]
    return min(places) >= 0 and places == sorted(places) and all(text.count(word) == 1 for word in words)


def test_a_system_text_goes_into_the_first_turn_where_there_is_no_system_role() -> None:
    assert render("NO_SYSTEM", system("Be brief."), user("Hi")) == "<user>Be brief.\n\nHi</>"
    assert render("NO_SYSTEM", system("Be brief.")) == "<user>Be brief.</>"


def test_turns_that_do_not_alternate_are_joined_where_the_template_wants_turns() -> None:
    assert render("NO_SYSTEM", user("a"), user("b"), said("c"), said("d"), user("e")) == "<user>a\n\nb</><assistant>c\n\nd</><user>e</>"
    assert render("NO_SYSTEM", said("Welcome."), user("Hi")) == "<user></><assistant>Welcome.</><user>Hi</>"
    assert render("PLAIN", user("a"), user("b")) == "<user>a</><user>b</>", "and nowhere else"


def test_a_late_system_message_stays_in_its_place() -> None:
    conversation = (system("First."), user("a"), said("b"), system("Late."), user("c"))
    assert render("PLAIN", *conversation) == "<system>First.</><user>a</><assistant>b</><system>Late.</><user>c</>"
    for name in ("STRICT", "FIRST_SYSTEM_ONLY", "HOISTS_SYSTEM"):
        assert in_order(render(name, *conversation), "First.", "<user>a", "<assistant>b", "Late.", "c</>")


def test_two_leading_system_messages_are_both_read() -> None:
    assert render("FIRST_SYSTEM_ONLY", system("One."), system("Two."), user("a")) == "<system>One.\n\nTwo.</><user>a</>"


def test_a_system_message_between_a_call_and_its_result_waits_for_the_result() -> None:
    text = render("STRICT", user("a"), called("x"), system("Note."), gave("x", "content"), said("b"), user("c"), tools=True)
    assert in_order(text, "<call ", "content<result ", "Note.", "<assistant>b", "c</>")


def test_ids_take_the_shape_that_the_template_wants_and_still_match() -> None:
    text = render("STRICT", user("a"), called("x", "y"), gave("y", "two"), gave("x", "one"), tools=True)
    first, second = (part.split(">")[0] for part in text.split("<call ")[1:])
    assert first != second and len(first) == len(second) == 9
    assert f"two<result {second}>" in text and f"one<result {first}>" in text


def test_results_without_an_id_answer_the_calls_in_turn() -> None:
    calls: list[JSONObject] = [{"type": "function", "function": {"name": "read", "arguments": "{}"}} for _ in range(2)]
    asked: JSONObject = {"role": "assistant", "content": None, "tool_calls": [*calls]}
    text = render("STRICT", user("a"), asked, {"role": "tool", "content": "one"}, {"role": "tool", "content": "two"}, tools=True)
    first, second = (part.split(">")[0] for part in text.split("<call ")[1:])
    assert first != second and f"one<result {first}>" in text and f"two<result {second}>" in text


def test_a_user_may_go_on_right_behind_a_result() -> None:
    assert render("STRICT", user("a"), called("x"), gave("x", "r"), user("b"), tools=True).endswith("</><assistant></><user>b</>")


def test_results_whose_call_was_cut_off_are_kept() -> None:
    for name in templates.ALL:
        text = render(name, user("a"), said("b"), gave("x", "orphan"), user("c"), tools=True)
        assert "orphan" in text and "c</>" in text, name
    assert render("STRICT", user("a"), said("b"), gave("x", "r"), said("d"), user("c"), tools=True).endswith("<assistant>d</><user>c</>")


def test_a_tool_is_described_in_full_for_a_template_that_takes_it_for_granted() -> None:
    source = "{% for t in tools or [] %}{{ 'def ' + t.function.name + ': ' + t.function.description }}"
    source += "{% for n, p in t.function.parameters.properties.items() %}{{ n + p.type + p.description }}{% endfor %}{% endfor %}"
    source += "{{ messages[0].content }}"
    bare: JSONObject = {"type": "function", "function": {"name": "now", "description": None}}
    nested: JSONObject = {
        "type": "function",
        "function": {"name": "f", "parameters": {"properties": {"n": {"type": ["null", "integer"]}, "odd": 5}}},
    }
    template = ChatTemplate(source)
    assert template.traits.tools == "tools"
    text = "".join(text for text, _ in template.render(Conversation([user("a")], [bare, nested], {}, date(2026, 1, 2))))
    assert text == "def now: def f: nintegeroddstringa"


def test_several_calls_become_one_message_each_with_its_result_behind_it() -> None:
    text = render("ONE_CALL", user("a"), called("x", "y"), gave("y", "two"), gave("x", "one"), said("b"), tools=True)
    wanted = '<assistant><call>read {"path": "x"}</><tool>one</><assistant><call>read {"path": "y"}</><tool>two</><assistant>b</>'
    assert text.endswith(wanted)


def test_a_result_stays_with_its_own_call_where_another_has_none() -> None:
    text = render("ONE_CALL", user("a"), called("x", "y"), gave("y", "two"), tools=True)
    assert in_order(text, '{"path": "x"}', '{"path": "y"}', "two")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ('{"path": "x", "n": 1.0}', '{"path": "x", "n": 1.0}'),
        ("", "{}"),
        ("{broken", '{"arguments": "{broken"}'),
        ("[1]", '{"arguments": "[1]"}'),
    ],
)
def test_arguments_are_an_object_for_a_template_that_writes_them_itself(arguments: str, shown: str) -> None:
    call: JSONObject = {"id": "1", "type": "function", "function": {"name": "read", "arguments": arguments}}
    asked: JSONObject = {"role": "assistant", "content": None, "tool_calls": [call]}
    assert f"<call>read {shown}</>" in render("TOOLS", user("a"), asked, tools=True)
    assert "<call read>" in render("ITEMS", user("a"), asked, tools=True)


def test_arguments_that_are_nested_without_end_stay_the_text_they_are() -> None:
    call: JSONObject = {"function": {"name": "f", "arguments": "[" * 100_000}}
    assert "[" * 100_000 in render("TOOLS", user("a"), {"role": "assistant", "tool_calls": [call]}, tools=True)


def test_arguments_are_text_where_the_template_wants_text() -> None:
    assert '<call>read {"path":"x"}</>' in render("TEXT_ARGUMENTS", user("a"), called("x"), tools=True)
    call: JSONObject = {"id": "1", "type": "function", "function": {"name": "read", "arguments": {"path": "x"}}}
    assert '<call>read {"path": "x"}</>' in render("TEXT_ARGUMENTS", user("a"), {"role": "assistant", "tool_calls": [call]}, tools=True)


def test_reasoning_comes_back_under_the_name_that_the_template_reads() -> None:
    assert "<think>why</think>" in render("TOOLS", user("a"), called("x", reasoning="why"), tools=True)
    assert "<analysis>why</>" in render("THINKING", user("a"), called("x", reasoning="why"), tools=True)
    assert "<analysis>why\n\nso</>" in render("THINKING", user("a"), called("x", content="so", reasoning="why"), tools=True)
    openrouter: JSONObject = {**called("x"), "reasoning": "why"}
    assert "<think>why</think>" in render("TOOLS", user("a"), openrouter, tools=True)


def test_tools_calls_and_results_are_our_text_where_the_template_knows_none() -> None:
    text = render(
        "PLAIN", system("Be brief."), user("a"), called("x", "y", content="Look:"), gave("x", "one"), gave("y", "two"), tools=True
    )
    assert text == (
        f"<system>Be brief.\n\n{tool_prompt([READ])}</><user>a</><assistant>Look:\n"
        '<tool_call>\n{"name": "read", "arguments": {"path":"x"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "read", "arguments": {"path":"y"}}\n</tool_call></>'
        "<user><tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response></>"
    )
    assert render("PLAIN", user("a"), tools=True).startswith(f"<system>{tool_prompt([READ])}</><user>a</>")


def test_our_list_of_tools_is_short_and_keeps_what_matters() -> None:
    line = tool_prompt(
        [READ, {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}]
    ).splitlines()
    assert json.loads(line[1]) == {
        "name": "read",
        "description": "Read a file.",
        "parameters": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "path": {"type": "string", "description": "Where it is."}},
            "required": ["path"],
        },
    }
    assert json.loads(line[2]) == {"name": "now"}


def test_a_past_call_is_written_as_the_model_wrote_it() -> None:
    call: JSONObject = {"function": {"name": "f", "arguments": '{"a":1e2,  "b":"é"}'}}
    assert call_text(call) == '<tool_call>\n{"name": "f", "arguments": {"a":1e2,  "b":"é"}}\n</tool_call>'
    assert call_text({"function": {"name": "f", "arguments": "{no"}}) == '<tool_call>\n{"name": "f", "arguments": "{no"}\n</tool_call>'


def test_calls_that_a_template_leaves_out_are_written_as_its_family_writes_them() -> None:
    arguments = '{"a": "x\\"é", "b": [true, null, 1.5], "c": {"d": 2}}'
    odd: JSONObject = {"id": "2", "type": "function", "function": {"name": "g", "arguments": '{"not a word": 1}'}}
    call: JSONObject = {"id": "1", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message: JSONObject = {"role": "assistant", "content": "So:", "tool_calls": [call, odd]}
    python = 'f(a="x\\"é", b=[True, None, 1.5], c={"d": 2}), {"name": "g", "arguments": {"not a word": 1}}'
    assert render("LISTS_TOOLS", user("a"), message).endswith(f"<assistant>So:\n<|tool_call_start|>[{python}]<|tool_call_end|></>")
    json_list = f'[{{"name": "f", "arguments": {arguments}}}, {{"name": "g", "arguments": {{"not a word": 1}}}}]'
    assert render("GRANITE", user("a"), message).endswith(f"<assistant>So:\n<|tool_call|>{json_list}</>")
    template = ChatTemplate(templates.GRANITE, control_texts=("<|tool_call|>",))
    pieces = template.render(Conversation([user("<|tool_call|>"), message], [], {}, date(2026, 1, 2)))
    assert [counts for text, counts in pieces if "<|tool_call|>" in text] == [False, True], "a control token in ours, not in the client's"


def test_calls_and_results_are_kept_where_the_request_has_no_tools() -> None:
    text = render("FIRST_SYSTEM_ONLY", user("a"), called("x"), gave("x", "one"), said("b"), user("c"))
    assert in_order(text, "<user>a", '"path":"x"', "<tool_response>\none", "<assistant>b", "<user>c")
    assert "<call>read" in render("TOOLS", user("a"), called("x"), gave("x", "one"))


@pytest.mark.parametrize("content", [None, "", [], [{"type": "text", "text": "r"}], ["r"], [{"type": "image_url"}], 5, {"a": 1}])
@pytest.mark.parametrize("name", sorted(templates.ALL))
def test_any_content_of_any_role_is_rendered(name: str, content: object) -> None:
    odd: JSONObject = json.loads(json.dumps({"content": content}))
    for role in ("system", "developer", "user", "assistant"):
        assert "<user>" in render(name, {"role": role, **odd}, user("a"))
    result: JSONObject = {"role": "tool", "tool_call_id": "call_x_0123456789abcdef", **odd}
    render(name, user("a"), called("x"), result, tools=True)


@pytest.mark.parametrize("calls", [None, [], [None], [{}], [{"function": 5}], "text", [{"function": {"name": "read"}}]])
def test_calls_that_are_none_are_left_out(calls: object) -> None:
    odd: JSONObject = json.loads(json.dumps({"role": "assistant", "content": "b", "tool_calls": calls}))
    for name in templates.ALL:
        assert "<user>c" in render(name, user("a"), odd, user("c"), tools=True)


def test_a_role_that_no_template_knows_is_named_by_one_that_minds() -> None:
    minds = "{% for m in messages if m.role == 'critic' %}{{ raise_exception('unknown role ' ~ m.role) }}{% endfor %}"
    template = ChatTemplate(minds)
    with pytest.raises(BadRequest, match="unknown role critic"):
        template.render(Conversation([{"role": "critic", "content": "a"}], [], {}, date(2026, 1, 2)))


WORDS = st.integers(0, 10**6)


@st.composite
def conversations(draw: st.DrawFn) -> list[JSONObject]:
    """Messages in any order, calls followed by their results; each content is a word of its own."""
    count = 0
    messages: list[JSONObject] = []
    for kind in draw(st.lists(st.sampled_from(["system", "user", "assistant", "calls"]), min_size=1, max_size=8)):
        count += 1
        if kind != "calls":
            messages.append({"role": kind, "content": f"word{count}."})
            continue
        names = [f"path{count}-{index}." for index in range(draw(st.integers(1, 2)))]
        messages.append(called(*names))
        messages += [gave(name, f"result-of-{name}") for name in names]
    return messages


def _words(messages: list[JSONObject]) -> list[str]:
    """What must come out, in order."""
    return [str(message["content"]) for message in messages if message["role"] != "tool" and message["content"]]


@settings(max_examples=40, deadline=None)
@given(conversations(), st.booleans())
def test_every_word_comes_out_once_and_in_its_place(messages: list[JSONObject], tools: bool) -> None:
    for name in templates.ALL:
        text = render(name, *messages, tools=tools)
        words = _words(messages) if name != "HOISTS_SYSTEM" else []
        assert all(text.count(word) == 1 for word in words), (name, text)
        assert [text.index(word) for word in words] == sorted(text.index(word) for word in words), (name, text)
        for message in messages:
            if message["role"] == "tool":
                assert text.count(str(message["content"])) == 1, (name, text)


@settings(max_examples=40, deadline=None)
@given(conversations(), st.booleans())
def test_the_prompt_of_a_turn_begins_as_the_one_before(messages: list[JSONObject], tools: bool) -> None:
    messages = [*messages, user("asks"), said("answers"), user("asks again")]
    for name in templates.ALL:
        if name == "HOISTS_SYSTEM":
            continue
        before, after = render(name, *messages[:-2], tools=tools), render(name, *messages, tools=tools)
        assert after.startswith(before), (name, before, after)

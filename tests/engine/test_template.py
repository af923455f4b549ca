"""Chat templates: what they are given, what of a client's text they may not turn into control tokens, and what each can render."""

from __future__ import annotations

import re
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.llama.chat.control_text import Piece, pattern
from daemon.engine.llama.chat.template import ChatTemplate, Conversation, TooLong, check_values
from daemon.errors import BadRequest, DataError
from daemon.records import JSONObject
from tests.engine import templates

DAY = date(2026, 3, 4)
CONTROLS = ("<|im_start|>", "<|im_end|>", "<|im|>", "<s>")


def pieces(template: ChatTemplate, messages: list[JSONObject], tools: list[JSONObject] | None = None, **values: object) -> list[Piece]:
    given_values: JSONObject = {name: value for name, value in values.items() if isinstance(value, bool | str)}
    return template.render(Conversation(messages, tools or [], given_values, DAY))


def text(template: ChatTemplate, messages: list[JSONObject], tools: list[JSONObject] | None = None, **values: object) -> str:
    return "".join(piece for piece, _ in pieces(template, messages, tools, **values))


def user(content: str = "x") -> JSONObject:
    return {"role": "user", "content": content}


def test_a_template_gets_what_templates_expect() -> None:
    template = ChatTemplate(
        "{% for m in messages %}{% if loop.index > 9 %}{% break %}{% endif %}{{ m.role }}:{{ m.content }};{% endfor %}"
        "{% generation %}{{ tools | tojson }}{% endgeneration %}{{ bos_token }}{{ strftime_now('%Y-%m-%d %H:%M') }}"
        "{% set found = [] %}{% set _ = found.append(messages | map(attribute='role')) %}{{ found[0] | tojson }}{{ enable_thinking }}",
        begin_text="<s>",
    )
    messages: list[JSONObject] = [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": None},
        user(),
    ]
    said = text(template, messages, [{"type": "function", "function": {"name": "<&>", "description": "é"}}], enable_thinking=False)
    assert said.startswith('system:a\nb;assistant:;user:x;[{"type": "function", "function": {"name": "<&>", "description": "é"}}]')
    assert said.endswith('<s>2026-03-04 00:00["system", "assistant", "user"]False')
    assert template.traits.tools == "tools"


def test_control_words_in_a_message_stay_text() -> None:
    template = ChatTemplate(None, control_texts=("<|im_start|>", "<|im_end|>"))
    assert pieces(template, [user("x<|im_end|>y \ue0a50\ue0a6")]) == [
        ("<|im_start|>user\nx", True),
        ("<|im_end|>", False),
        ("y \ufffd0\ufffd<|im_end|>\n<|im_start|>assistant\n", True),
    ]


@pytest.mark.parametrize("source", ["{{ tools | tojson }}", "{{ tools | tojson(ensure_ascii=true) }}"])
def test_control_words_in_the_name_of_an_argument_stay_text(source: str) -> None:
    template = ChatTemplate(source, control_texts=("<|im_end|>",))
    parameters: JSONObject = {"type": "object", "properties": {"<|im_end|>": {"type": "string"}}}
    assert ("<|im_end|>", False) in pieces(template, [user()], [{"type": "function", "function": {"name": "f", "parameters": parameters}}])


def test_role_markers_that_are_no_control_tokens_stay_text_too() -> None:
    source = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n\n{% endfor %}<think>"
    words = ("<|user|>", "\n\n", "<think>", "<tool_call>", "user", "<|tool|>")
    template = ChatTemplate(source, defined_texts=words)
    assert pieces(template, [user("<think>a</think><|user|><tool_call>\n\nuser")]) == [
        ("<|user|><think>a</think>", True),
        ("<|user|>", False),
        ("<tool_call>\n\nuser\n\n<think>", True),
    ]


def test_control_words_in_a_clients_variable_stay_text() -> None:
    template = ChatTemplate("{{ identity }}{{ messages[0].content }}", control_texts=("<|im_end|>",))
    assert pieces(template, [user()], identity="a<|im_end|>") == [("a", True), ("<|im_end|>", False), ("x", True)]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="<|ims_>tarend", max_size=60))
def test_hidden_text_comes_out_as_it_went_in(content: str) -> None:
    shown = pieces(CHATML, [user(content)])
    assert "".join(piece for piece, _ in shown) == f"<|im_start|>user\n{content}<|im_end|>\n<|im_start|>assistant\n"
    assert sum(piece.count(word) for piece, counts in shown if counts for word in ("<|im_start|>", "<|im_end|>")) == 3


CHATML = ChatTemplate(None, control_texts=CONTROLS)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(alphabet="ab<|", min_size=1, max_size=5), min_size=1, max_size=6), st.text(alphabet="ab<|", max_size=30))
def test_the_tree_of_control_words_finds_what_trying_each_would_find(words: list[str], content: str) -> None:
    found = pattern(tuple(words))
    plain = re.compile("|".join(map(re.escape, sorted(words, key=len, reverse=True))))
    assert found is not None and found.findall(content) == plain.findall(content)


def test_without_control_words_nothing_is_hidden() -> None:
    assert pattern(()) is None and pattern(("",)) is None


@pytest.mark.parametrize(
    "source",
    ["{{ messages.__class__.__mro__ }}", "{{ messages[0].content.missing.deeper }}", "{{ 1 // 0 }}", "{{ 'a' + 1 }}", "{{ [] [0] + 1 }}"],
)
def test_a_template_that_fails_is_a_400(source: str) -> None:
    with pytest.raises(BadRequest, match="cannot render this conversation: "):
        pieces(ChatTemplate(source), [user()])


def test_a_refusal_is_repeated_in_the_templates_words() -> None:
    template = ChatTemplate(
        "{% if messages[0].content != 'x' %}{{ raise_exception('I take no ' ~ messages[0].content) }}{% endif %}", control_texts=("<s>",)
    )
    with pytest.raises(BadRequest, match='it says "I take no <s>numbers"') as caught:
        pieces(template, [user("<s>numbers")])
    assert caught.value.param == "messages"


def test_a_prompt_that_cannot_fit_is_given_up_early() -> None:
    template = ChatTemplate("{% for a in range(90000) %}{{ messages[0].content * 90000 }}{% endfor %}")
    with pytest.raises(TooLong) as caught:
        template.render(Conversation([user()], [], {}, DAY, most_characters=100_000))
    assert 100_000 < caught.value.characters <= 180_000


def test_a_template_that_does_not_compile_is_a_sentence() -> None:
    for source in ("{% for %}", "{{ " + "(" * 5000, "{% if 1 %}" * 200 + "{% endif %}" * 200):
        with pytest.raises(DataError, match=r"The model's chat template is broken: ."):
            ChatTemplate(source)


@pytest.mark.parametrize("name", ["messages", "tools", "add_generation_prompt", "bos_token", "raise_exception"])
def test_a_client_cannot_take_the_place_of_the_conversation(name: str) -> None:
    with pytest.raises(BadRequest, match=f"may not set {name}"):
        check_values({name: "x"})


def test_a_client_sets_plain_values_only() -> None:
    check_values({"enable_thinking": False, "reasoning_effort": "low", "budget": 5})
    with pytest.raises(BadRequest, match=r"chat_template_kwargs\.documents"):
        check_values({"documents": [1]})


EXPECTED = {
    "PLAIN": {"tools": "", "arguments": "", "results": True},
    "TOOLS": {"tools": "tools", "arguments": "object", "results": True, "reasoning": "reasoning_content"},
    "NO_SYSTEM": {"system": False, "free_turns": False, "late_system": False, "results": False},
    "STRICT": {"short_ids": True, "free_turns": False, "several_system": False, "late_system": False, "system": True},
    "ONE_CALL": {"parallel": False, "text_beside_calls": True},
    "FIRST_SYSTEM_ONLY": {"several_system": False, "late_system": False, "results": False, "free_turns": True},
    "HOISTS_SYSTEM": {"several_system": True, "late_system": False},
    "SYSTEM_LAST": {"system": False, "free_turns": True},
    "TEXT_ARGUMENTS": {"arguments": "text"},
    "ITEMS": {"arguments": "object"},
    "LISTS_TOOLS": {"tools": "tools", "arguments": "", "results": True, "call_style": "lfm2"},
    "GRANITE": {"tools": "tools", "arguments": "", "results": True, "call_style": "granite"},
    "THINKING": {"reasoning": "thinking", "reasoning_beside_text": False},
}


@pytest.mark.parametrize("name", sorted(templates.ALL))
def test_what_a_template_can_do_is_found_out(name: str) -> None:
    traits = ChatTemplate(templates.ALL[name]).traits
    assert {key: getattr(traits, key) for key in EXPECTED[name]} == EXPECTED[name]

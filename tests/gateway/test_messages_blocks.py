"""Whatever a messages request holds, it is read or refused with a sentence; and the same history reads the same."""

from __future__ import annotations

import copy
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import ReefError
from daemon.gateway.wires.messages.request import parse, thinking_of
from daemon.gateway.wires.messages.thinking import carried_in, signature_of
from daemon.records import Message

KINDS = ["text", "image", "document", "tool_use", "tool_result", "thinking", "redacted_thinking", "search_result", "tool_reference", "odd"]
words = st.sampled_from(["", "a", "x-anthropic-billing-header: b", "\ud800", "{"])
odd = st.one_of(st.none(), st.booleans(), st.integers(-1, 2), words, st.just([]), st.just({}), st.just([None]), st.just([{}]))


def objects(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with all of the fields, now and then without one, or with an odd one."""

    def made(drawn: tuple[dict[str, Any], int, Any]) -> dict[str, Any]:
        found, place, value = drawn
        if place < len(found):
            name = list(found)[place]
            found = {key: inner for key, inner in found.items() if key != name} if value is None else {**found, name: value}
        return found

    return st.tuples(st.fixed_dictionaries(fields), st.integers(0, 40), odd).map(made)


names = st.sampled_from(["a", "b"])
sources = objects(
    type=st.sampled_from(["base64", "url", "text", "content", "file"]), data=words, media_type=words, url=words, content=words
)
inner = objects(type=st.sampled_from(KINDS), text=words, source=sources, id=names, name=names, input=st.just({}), thinking=words)
outer = objects(
    type=st.sampled_from(KINDS), content=st.lists(inner, max_size=2), tool_use_id=names, text=words, source=sources, signature=words
)
calls = objects(type=st.just("tool_use"), id=names, name=names, input=st.just({"a": 1}))
contents = st.one_of(words, st.lists(st.one_of(inner, outer, calls), max_size=3))
messages = objects(role=st.sampled_from(["user", "assistant", "system"]), content=contents)
tools = objects(
    name=names, input_schema=st.just({"type": "object"}), defer_loading=st.booleans(), strict=st.booleans(), type=st.just("custom")
)
bodies = objects(
    model=st.just("m"),
    max_tokens=st.just(9),
    system=contents,
    messages=st.lists(messages, min_size=1, max_size=4),
    tools=st.lists(tools, min_size=1, max_size=2),
    tool_choice=objects(type=st.sampled_from(["auto", "any", "none"]), name=words, disable_parallel_tool_use=st.booleans()),
    thinking=objects(type=st.sampled_from(["enabled", "disabled", "adaptive"]), display=words),
    output_config=objects(format=objects(type=st.just("json_schema"), schema=st.just({}))),
    stop_sequences=st.lists(words, max_size=2),
    temperature=st.floats(0, 1),
)


@given(bodies)
@settings(max_examples=80, deadline=None)
def test_any_body_is_read_or_refused_with_a_sentence(body: dict[str, Any]) -> None:
    before = copy.deepcopy(body)
    try:
        call = parse(body)
        thinking_of(body)
    except ReefError as error:
        assert error.status == 400 and error.message.endswith(".")
    else:
        assert call.messages and all(message["role"] in ("system", "user", "assistant", "tool") for message in call.messages)
        pairs = zip(call.messages, call.messages[1:], strict=False)
        assert not any(first["role"] == second["role"] == "assistant" for first, second in pairs)
    assert body == before, "what goes into the record is what the client sent"


def marked(content: Any) -> Any:
    """As a client sends it a turn later: a text as a block, and a cache mark on it."""
    if isinstance(content, str):
        return [{"type": "text", "text": content, "cache_control": {"type": "ephemeral"}}]
    return [{**block, "cache_control": {"type": "ephemeral"}} for block in content]


turns = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.sampled_from(["user", "system", "assistant"]), "content": st.text("ab", min_size=1, max_size=3)}),
        st.just({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"a": 1}}]}),
        st.just(
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "r"}, {"type": "text", "text": "u"}]}
        ),
    ),
    max_size=6,
)


@given(turns)
@settings(max_examples=80, deadline=None)
def test_cache_marks_and_blocks_instead_of_texts_change_nothing(history: list[dict[str, Any]]) -> None:
    history = [{"role": "user", "content": "begin"}, *history]

    def read(messages: Any, system: Any) -> tuple[Message, ...]:
        return parse({"model": "m", "max_tokens": 1, "system": system, "messages": messages}).messages

    plain = read(history, "Be brief.")
    assert read([{**message, "content": marked(message["content"])} for message in history], marked("Be brief.")) == plain
    longer = read([*history, {"role": "user", "content": "more"}], "Be brief.")
    assert longer[: len(plain)] == plain, "a longer history begins with the shorter one"


@given(st.text(max_size=50), st.integers(0, 30))
@settings(max_examples=60, deadline=None)
def test_a_signature_brings_back_its_reasoning_or_nothing(reasoning: str, place: int) -> None:
    signature = signature_of(reasoning, carried=True)
    assert carried_in(signature) == reasoning
    assert carried_in(signature_of(reasoning, carried=False)) == ""
    broken = signature[:place] + "!" + signature[place + 1 :]
    assert carried_in(broken) in ("", reasoning)


def test_a_turn_in_very_many_messages_is_read_in_one_go() -> None:
    many: list[Any] = [
        {"role": "user", "content": "a"},
        *({"role": "assistant", "content": "b"} for _ in range(50_000)),
        {"role": "user", "content": "c"},
    ]
    began = time.monotonic()
    read = parse({"model": "m", "max_tokens": 1, "messages": many}).messages
    assert len(read) == 3 and time.monotonic() - began < 5, "not a quadratic of them"


@pytest.mark.parametrize(
    "signature", ["", "EqQBCkYIBRgCKkD", "reef.carried.", "reef.carried.AAA", "reef.carried.ä", "reef.carried./w==", "reef.shown"]
)
def test_a_foreign_and_a_damaged_signature_carry_nothing(signature: str) -> None:
    assert carried_in(signature) == ""

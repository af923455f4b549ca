"""Cells are kept where they are of use, and a hit across LoRAs never happens."""

from __future__ import annotations

from array import array

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.llama.cache.slots import Holder, Slots, common_prefix

TOKENS = st.lists(st.integers(0, 2), max_size=12)


def test_slots_prefer_what_they_hold_and_never_cross_loras() -> None:
    slots = Slots(0, 2)
    first = slots.take([1, 2, 3, 4], None)
    first[0].cells = [1, 2, 3, 4]
    slots.give_back(first[0])
    other = slots.take([1, 2, 3, 4, 5], "lora")
    assert other[1] == 0 and other[0] is not first[0]
    again = slots.take([1, 2, 3, 9], None)
    assert again[1] == 3 and again[0] is first[0]


@given(TOKENS, TOKENS, st.integers(0, 12))
@settings(max_examples=100, deadline=None)
def test_common_prefix_is_where_two_first_differ(left: list[int], right: list[int], start: int) -> None:
    rest = right[start:]
    expected = next((at for at, pair in enumerate(zip(left, rest, strict=False)) if pair[0] != pair[1]), min(len(left), len(rest)))
    assert common_prefix(left, right, start) == expected
    assert common_prefix(array("i", left), array("i", right), start) == expected


def test_a_conversation_goes_on_when_its_whole_prompt_is_there_but_for_a_templates_last_words() -> None:
    holder = Holder(cells=list(range(300)), prompt_tokens=200)
    assert holder.is_continued(200) and holder.is_continued(190)
    assert not holder.is_continued(150)
    assert not Holder(cells=list(range(300)), prompt_tokens=20).is_continued(5), "a common greeting is no continuation"

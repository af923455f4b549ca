"""JSON that others wrote is read the same whichever reader is faster, and nothing is rounded or let through in silence."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon import json_text

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(_VALUES)
def test_any_value_comes_back_exactly(value: object) -> None:
    text = json.dumps(value)
    assert repr(json_text.parse(text)) == repr(value) == repr(json_text.parse(text.encode()))


@pytest.mark.parametrize("text", ["123456789012345678901", "[-18446744073709551617]", '{"a": [{"b": 9223372036854775808}]}', '["\\ud83d"]'])
def test_a_long_integer_and_half_a_character_are_kept(text: str) -> None:
    assert json_text.parse(text) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1e999]", "too large"),
        ("NaN", "NaN"),
        ("[-Infinity]", "Infinity"),
        ("[" * 101 + "]" * 101, "deeper"),
        ('{"a":' * 3000 + "1" + "}" * 3000, "deeper"),
        ("1" * 5000, "4300"),
        ('{"a" 1}', "Expecting"),
        ("[1, 2", "Expecting"),
        ('"\x01"', "control"),
    ],
)
def test_what_is_refused_says_why(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        json_text.parse(text)


def test_a_hundred_levels_are_read() -> None:
    assert json_text.parse("[" * 100 + "]" * 100)

"""What was seen before is recognised, and nothing else is taken for it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from daemon.fingerprint import fingerprint
from daemon.records import JSON

_json = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([1.0, 0.0, -0.0, 2.5]) | st.text("ab1[", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)


@given(_json, _json)
def test_equal_numbers_mean_equal_json(one: JSON, other: JSON) -> None:
    assert (fingerprint(one) == fingerprint(other)) == (json.dumps(one) == json.dumps(other))


@given(_json)
def test_a_copy_has_the_same_number(value: JSON) -> None:
    assert fingerprint(json.loads(json.dumps(value))) == fingerprint(value)

"""The tree must say of every holder exactly what comparing the tokens would say, after any coming and going."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.llama.cache.prefix_tree import PrefixTree
from daemon.engine.llama.cache.slots import common_prefix

TOKENS = st.lists(st.integers(0, 2), max_size=8)
CHANGES = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([None, "lora"]), TOKENS | st.none()), max_size=25)


@given(CHANGES, TOKENS)
@settings(max_examples=200, deadline=None)
def test_it_finds_what_comparing_finds(changes: list[tuple[int, str | None, list[int] | None]], asked: list[int]) -> None:
    tree: PrefixTree[int] = PrefixTree()
    held: dict[int, tuple[str | None, list[int]]] = {}
    for holder, key, tokens in changes:
        if tokens is None:
            tree.remove(holder)
            held.pop(holder, None)
        else:
            tree.put(key, tokens, holder)
            held[holder] = (key, tokens)
    for key in (None, "lora"):
        expected = {holder: common_prefix(tokens, asked) for holder, (of, tokens) in held.items() if of == key}
        assert tree.find(key, asked) == {holder: shared for holder, shared in expected.items() if shared}


def test_nothing_is_left_of_what_has_gone() -> None:
    tree: PrefixTree[int] = PrefixTree()
    for round_ in range(50):
        tree.put(None, [1, 2, 3, *range(round_)], 1)
        tree.put(None, [1, 2, round_], 2)
    tree.remove(1)
    tree.remove(2)
    assert tree.find(None, [1, 2, 3]) == {}
    assert tree.nodes == 0

"""Saved states never lie on one another, and what is given back can be taken again."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.llama.cache.arena import Arena, Block
from daemon.errors import EngineError

LIMIT = 4096


@given(st.lists(st.tuples(st.booleans(), st.integers(1, LIMIT + 10)), max_size=40))
@settings(max_examples=50, deadline=None)
def test_blocks_never_overlap(steps: list[tuple[bool, int]]) -> None:
    arena = Arena(LIMIT)
    held: list[Block] = []
    for takes, size in steps:
        block = arena.take(size) if takes else None
        if block is not None:
            assert block.size == size and block.start + size <= LIMIT
            assert all(block.start + size <= other.start or other.start + other.size <= block.start for other in held)
            held.append(block)
        elif not takes and held:
            arena.give_back(held.pop(size % len(held)))
        assert arena.held_bytes == sum(block.size for block in held)
    for block in held:
        arena.give_back(block)
    assert arena.take(LIMIT) is not None


def test_more_than_there_is_is_a_sentence() -> None:
    with pytest.raises(EngineError, match="memory"):
        Arena(1 << 62)
    assert Arena(0).take(1) is None

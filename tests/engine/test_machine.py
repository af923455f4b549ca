"""What the engine takes of the machine's memory: enough for the model's window where there is enough, and never most of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.engine.llama import machine
from daemon.engine.llama.machine import available_bytes, cache_bytes_per_token, context_tokens, saved_bytes
from daemon.gguf import GGUFHeader, Value

GIB = 1 << 30
FACTS: dict[str, Value] = {
    "llama.attention.head_count": 32,
    "llama.attention.head_count_kv": 8,
    "llama.embedding_length": 4096,
    "llama.block_count": 32,
}
HEADER = GGUFHeader("llama", "m", "Q4_K", 131072, None, 0, 0, FACTS, 5 * GIB, ())


def test_the_window_is_the_models_own_up_to_32768_where_memory_allows() -> None:
    assert cache_bytes_per_token(HEADER) == 128 << 10
    assert context_tokens(HEADER, 6, None, 256 * GIB) == 32768
    assert context_tokens(HEADER, 6, None, 0) == 32768


def test_less_memory_means_a_shorter_window_with_room_left_for_the_weights() -> None:
    tokens = context_tokens(HEADER, 6, None, 16 * GIB)
    assert tokens * 6 * cache_bytes_per_token(HEADER) <= (16 - 5) * GIB // 2
    assert tokens > 7000
    assert context_tokens(HEADER, 6, None, 4 * GIB) == 1024


def test_what_the_user_wants_is_taken_up_to_the_models_window() -> None:
    assert context_tokens(HEADER, 6, 65536, 8 * GIB) == 65536
    assert context_tokens(HEADER, 6, 1 << 20, 8 * GIB) == 131072


def test_saved_states_take_no_more_than_an_eighth() -> None:
    assert saved_bytes(HEADER, 4, 8192, None, 8 * GIB) == GIB
    assert saved_bytes(HEADER, 4, 1024, None, 64 * GIB) == 4 * 1024 * cache_bytes_per_token(HEADER)


def test_a_size_that_the_user_sets_leaves_the_machine_its_memory() -> None:
    assert saved_bytes(HEADER, 4, 8192, 3 * GIB, 8 * GIB) == 3 * GIB
    assert saved_bytes(HEADER, 4, 8192, 1000 * GIB, 8 * GIB) == 4 * GIB
    assert saved_bytes(HEADER, 4, 8192, 0, 8 * GIB) == 0


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    whole = available_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("300000\n")
    (tmp_path / "memory.stat").write_text("anon 200000\ninactive_file 100000\n")
    assert available_bytes() == pytest.approx(whole, rel=0.2)
    (tmp_path / "memory.max").write_text("1000000\n")
    assert available_bytes() == 800_000

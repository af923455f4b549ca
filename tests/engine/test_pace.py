"""How much is read between two steps: as much as keeps running streams flowing, on any machine."""

from __future__ import annotations

import pytest

from daemon.engine.llama.batch import BATCH_TOKENS
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.pace import Pace


def measured(streams: int, step_s: float, token_s: float) -> Pace:
    pace = Pace()
    for _ in range(40):
        pace.stepped(streams, step_s)
    for _ in range(40):
        pace.read(64, 64 * token_s)
    return pace


@pytest.mark.parametrize(
    ("streams", "step_s", "token_s"), [(4, 0.019, 0.0026), (8, 0.030, 0.0026), (8, 0.110, 0.003), (4, 0.008, 0.0001), (4, 0.019, 0.0065)]
)
def test_no_gap_of_a_running_stream_is_over_three_times_the_usual(streams: int, step_s: float, token_s: float) -> None:
    piece = measured(streams, step_s, token_s).piece(streams)
    assert step_s + piece * token_s <= 3 * step_s
    assert piece >= MIN_PIECE


def test_beside_one_fast_stream_a_prompt_is_still_read_at_a_pace() -> None:
    piece = measured(1, 0.0065, 0.0026).piece(1)
    assert piece == 8
    assert piece * 0.0026 <= 0.025


def test_steps_that_reading_slows_down_do_not_make_the_pieces_larger() -> None:
    pace = measured(4, 0.019, 0.0026)
    pace.stepped(4, 0.019)
    before = pace.piece(4)
    for _ in range(50):
        pace.read(before, before * 0.0026)
        pace.stepped(4, 0.040)
    assert pace.piece(4) == before


def test_a_lone_prompt_is_read_in_large_pieces_that_still_let_a_newcomer_in() -> None:
    assert measured(1, 0.01, 0.0022).piece(0) == 128
    fast = measured(1, 0.01, 0.0001).piece(0)
    assert 256 < fast <= BATCH_TOKENS - MIN_PIECE
    assert measured(1, 0.01, 0.5).piece(0) == 64


def test_one_hiccup_does_not_stall_reading() -> None:
    pace = measured(4, 0.1, 0.001)
    before = pace.piece(4)
    pace.read(64, 60.0)
    for _ in range(10):
        pace.read(16, 0.016)
    assert pace.piece(4) >= before // 2


def test_a_copy_must_save_more_than_it_takes() -> None:
    slow, fast = measured(1, 0.01, 0.0025), measured(1, 0.01, 0.00002)
    assert slow.pays(1500, 35_000_000) and slow.pays(64, 35_000_000)
    assert not slow.pays(63, 1000), "a few tokens are read as quickly"
    assert not fast.pays(100, 35_000_000)


def test_the_wait_grows_with_the_queue_and_stays_sensible() -> None:
    pace = Pace()
    pace.ended(20.0)
    assert 1 <= pace.wait_s(0, 8) < pace.wait_s(10, 4) < pace.wait_s(40, 4) == 60

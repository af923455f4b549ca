"""A conversation that a worker before has had is read again, and the person is told why."""

from __future__ import annotations

from daemon.engine.base import CacheStats, Finished, GenerateRequest
from daemon.engine.llama.earlier_workers import EarlierWorkers
from daemon.records import Usage


def _ask(earlier: EarlierWorkers, session: str, worker: int, *, read: int = 500, cached: int = 0, miss: str = "") -> str:
    finished = Finished("stop", Usage(read + cached, 1, cached), cache_miss=miss)
    return earlier.explained(GenerateRequest((), scenario="default", session=session), finished, worker).cache_miss


def test_after_a_restart_a_conversation_was_evicted_once() -> None:
    earlier = EarlierWorkers()
    assert [_ask(earlier, "a", 0), _ask(earlier, "a", 0)] == ["", ""]
    assert [_ask(earlier, "a", 1), _ask(earlier, "a", 1)] == ["evicted", ""]
    assert _ask(earlier, "new", 1) == _ask(earlier, "", 1) == ""
    assert earlier.added(CacheStats(misses={"evicted": 2, "LoRA changed": 1})).misses == {"evicted": 3, "LoRA changed": 1}


def test_after_a_change_of_the_model_the_template_is_another() -> None:
    before, after = EarlierWorkers(), EarlierWorkers()
    _ask(before, "a", 3)
    after.take_over(before)
    _ask(before, "under way", 3)
    assert _ask(after, "under way", 0) == "template changed"
    assert [_ask(after, "a", 0), _ask(after, "a", 0), _ask(after, "b", 0)] == ["template changed", "", ""]


def test_a_short_prompt_and_a_reason_that_is_known_are_left_alone() -> None:
    earlier = EarlierWorkers()
    _ask(earlier, "a", 0)
    assert _ask(earlier, "a", 1, read=20) == ""
    assert _ask(earlier, "a", 2, miss="LoRA changed") == "LoRA changed"
    assert earlier.added(CacheStats()).misses == {}


def test_what_is_remembered_is_bounded() -> None:
    earlier = EarlierWorkers()
    for number in range(300):
        _ask(earlier, str(number), 0)
    assert _ask(earlier, "0", 1) == ""
    assert _ask(earlier, "299", 1) == "evicted"

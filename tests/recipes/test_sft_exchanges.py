"""What `sft` learns from: only what the user accepted or wrote, and no prompt more than its share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from daemon.experience.stream import Turn
from daemon.records import Message, Status
from recipes.sft.exchanges import Exchange, choose, failed, usable
from tests.recipes.sft_world import turn


def _one(item: Turn) -> Exchange | str:
    found, skipped = usable([item], min_score=0.5, max_staleness=2)
    return found[0] if found else next(iter(skipped))


def test_a_correction_replaces_the_reply_whatever_the_score() -> None:
    exchange = _one(turn("a", "bad", score=0.0, correction="good"))
    assert isinstance(exchange, Exchange) and exchange.reply == "good" and exchange.corrected


def test_an_accepted_reply_is_learned_as_it_was_said() -> None:
    exchange = _one(turn("a", "fine", score=1.0))
    assert isinstance(exchange, Exchange) and exchange.reply == "fine" and not exchange.corrected


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (turn("a"), "not accepted"),
        (turn("a", score=0.2), "not accepted"),
        (turn("a", score=1.0, tokens=False), "no token ids"),
        (turn("a", score=1.0, lag=3), "stale"),
        (turn("a", score=1.0, redactions=1, tokens=False), "redacted"),
        (turn("a", score=1.0, redactions=1, masked=((-99, 99),)), "redacted"),
        (turn("a", correction="key is [redacted:aws]"), "redacted"),
        (turn("a", score=1.0, status=Status.ABORTED), "aborted"),
    ],
)
def test_what_may_not_be_learned_is_left_out_with_its_reason(item: Turn, reason: str) -> None:
    assert _one(item) == reason


def test_staleness_does_not_hold_for_what_the_user_wrote() -> None:
    assert isinstance(_one(turn("a", correction="good", lag=99)), Exchange)


def _chosen(*turns: Turn, per_task: int = 2, limit: int = 64) -> tuple[list[str], dict[str, int]]:
    found, _ = usable(turns, min_score=0.5, max_staleness=18)
    kept, skipped = choose(found, per_task, limit, failed(turns, min_score=0.5))
    return [exchange.reply for exchange in kept], dict(skipped)


def test_of_one_prompt_the_latest_correction_is_learned_alone() -> None:
    replies, skipped = _chosen(turn("a", "said", score=1.0), turn("a", correction="first"), turn("a", correction="second"))
    assert replies == ["second"] and skipped == {"same prompt": 2}


def test_the_shortest_accepted_replies_go_first_and_an_always_solved_prompt_is_dropped() -> None:
    two = _chosen(turn("a", "longer reply", score=1.0), turn("a", "short", score=1.0), per_task=1)
    assert two == (["short"], {"same prompt": 1})
    assert _chosen(*(turn("a", "same", score=1.0) for _ in range(3))) == ([], {"always solved": 3})


def test_a_prompt_that_was_solved_now_and_then_is_learned() -> None:
    """Three of five were right: that is what there is to learn from."""
    turns = [turn("a", "right", score=1.0) for _ in range(3)] + [turn("a", "wrong", score=-1.0) for _ in range(2)]
    assert _chosen(*turns) == (["right", "right"], {"same prompt": 1})


def test_the_newest_are_kept_when_there_are_too_many() -> None:
    replies, skipped = _chosen(*(turn(f"prompt {index}", correction=f"reply {index}") for index in range(5)), limit=2)
    assert replies == ["reply 3", "reply 4"] and skipped == {"more than fit": 3}


def _imported(item: Turn, **changes: object) -> Turn:
    return replace(item, inference=replace(item.inference, wire="import", tokens=None, **changes))  # type: ignore[arg-type]


def test_an_accepted_reply_that_was_said_elsewhere_is_learned_as_text() -> None:
    exchange = _one(_imported(turn("a", "as I want it", score=1.0, lag=99)))
    assert isinstance(exchange, Exchange) and exchange.reply == "as I want it"
    calls: Message = {"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c"}]}
    assert _one(_imported(turn("a", score=1.0), reply=calls)) == "no plain text"
    assert _one(_imported(turn("a", "the key [redacted:aws]", score=1.0, redactions=1))) == "redacted"
    assert _one(_imported(turn("a", "as I want it"))) == "not accepted"

"""Nothing is computed twice that need not be, and nothing stale is ever used: each reply is checked against its prompt alone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Priority
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.sequence import Sequence
from tests.engine.scheduling import Scheduling, prompt


def next_turn(job: Sequence, new: int = 20, seed: int = 99) -> list[int]:
    return [*job.prompt, *job.completion, *prompt(seed, new)]


def test_every_token_of_a_conversation_but_the_last_is_reused() -> None:
    scheduling = Scheduling()
    job = scheduling.ask(prompt(0, 100), 30)
    scheduling.run()
    for turn in range(5):
        before = len(job.prompt) + len(job.completion)
        job = scheduling.ask(next_turn(job, seed=turn), 30)
        scheduling.run()
        assert job.cached == before - 1


def test_a_turn_shorter_than_a_piece_reads_one_piece() -> None:
    scheduling = Scheduling()
    job = scheduling.ask(prompt(0, 100), 30)
    scheduling.run()
    again = scheduling.ask(next_turn(job, new=2))
    scheduling.run()
    assert again.cached == len(again.prompt) - MIN_PIECE


def test_more_conversations_than_slots_all_go_on_where_they_were() -> None:
    scheduling = Scheduling(streams=2)
    jobs = [scheduling.ask(prompt(number, 200), 20) for number in range(6)]
    scheduling.run()
    for _ in range(3):
        jobs = [scheduling.ask(next_turn(job), 20) for job in jobs]
        scheduling.run()
        assert all(job.cached == len(job.prompt) - 20 - 1 for job in jobs)


def test_of_slots_that_cost_the_same_one_beside_a_running_stream_is_taken() -> None:
    """Streams in slots with a hole between them are computed in one pass over the weights each side of it."""
    scheduling = Scheduling(streams=4)
    jobs = [scheduling.ask(prompt(number, 100), 10 + number) for number in range(4)]
    scheduling.run()
    scheduling.ask(next_turn(jobs[3]), 40)
    for _ in range(8):
        scheduling.step()
    scheduling.ask(prompt(50, 100), 10)
    scheduling.run()
    together = [[row.slot for row in rows] for rows, _ in scheduling.model.calls if len({row.slot for row in rows}) == 2]
    assert together[-1] == [2, 3]


def test_under_a_bound_the_oldest_goes_first() -> None:
    scheduling = Scheduling(streams=1, cache_bytes=3 * 8 * 260)
    jobs = [scheduling.ask(prompt(number, 200), 20, session=str(number)) for number in range(6)]
    scheduling.run()
    stats = scheduling.scheduler.cache_stats()
    assert stats["held_bytes"] <= stats["limit_bytes"]
    newest = [scheduling.ask(next_turn(job), session=job.session) for job in jobs[:3:-1]]
    oldest = scheduling.ask(next_turn(jobs[0]), session="0")
    scheduling.run()
    assert all(job.cached > 200 for job in newest)
    assert oldest.cached == 0 and oldest.cache_miss == "evicted"


def test_without_room_for_saved_states_slots_still_serve() -> None:
    scheduling = Scheduling(streams=1, cache_bytes=0)
    first, second = (scheduling.ask(prompt(number, 200), 20) for number in range(2))
    scheduling.run()
    again = [scheduling.ask(next_turn(job)) for job in (second, first)]
    scheduling.run()
    assert again[0].cached > 200 and again[1].cached == 0
    assert scheduling.model.copies == 0


def test_one_prompt_asked_several_times_at_once_is_read_once() -> None:
    scheduling = Scheduling(streams=4)
    asked = prompt(0, 500)
    jobs = [scheduling.ask(asked) for _ in range(4)]
    scheduling.run()
    computed = sum(len(rows) for rows, _ in scheduling.model.calls)
    assert computed <= 500 + 3 * MIN_PIECE + 4 * 5
    assert [job.cached for job in jobs] == [0, *[500 - MIN_PIECE] * 3]


def test_agents_with_one_system_prompt_read_it_once() -> None:
    scheduling = Scheduling(streams=3)
    system = prompt(0, 400)
    jobs = [scheduling.ask([*system, *prompt(number, 100)]) for number in (1, 2, 3)]
    scheduling.run()
    assert [job.cached for job in jobs] == [0, 400, 400]


def test_when_the_one_that_reads_for_others_is_cancelled_another_goes_on_from_there() -> None:
    scheduling = Scheduling(streams=3)
    jobs = [scheduling.ask(prompt(0, 1000)) for _ in range(3)]
    while jobs[0].read < 500:
        scheduling.step()
    reached = jobs[0].read
    scheduling.scheduler.cancel(jobs[0].id)
    scheduling.run()
    assert jobs[1].cached == reached and jobs[2].cached == 1000 - MIN_PIECE


def test_a_second_branch_leaves_the_first_where_it_is() -> None:
    scheduling = Scheduling(streams=2)
    system = prompt(0, 300)
    first = scheduling.ask([*system, *prompt(1, 300)], 20)
    scheduling.run()
    branch = scheduling.ask([*system, *prompt(2, 300)], 20)
    scheduling.run()
    assert branch.cached == 300
    again = scheduling.ask(next_turn(first))
    scheduling.run()
    assert again.cached == 619


def test_an_aside_takes_nothing_from_the_conversation_that_it_interrupts() -> None:
    scheduling = Scheduling(streams=1)
    main = scheduling.ask(prompt(0, 300), 20, session="s")
    scheduling.run()
    aside = scheduling.ask([*prompt(0, 300)[:100], *prompt(5, 30)], session="s")
    scheduling.run()
    main = scheduling.ask(next_turn(main), session="s")
    scheduling.run()
    assert aside.cached == 100 and main.cached == 319
    assert (aside.cache_miss, main.cache_miss) == ("", "")


def test_cells_are_never_used_under_another_lora_nor_after_it_has_gone() -> None:
    scheduling = Scheduling(streams=2)
    job = scheduling.ask(prompt(0, 200), 20, lora=1, session="s")
    scheduling.run()
    other = scheduling.ask(next_turn(job), lora=2, session="s")
    scheduling.run()
    assert other.cached == 0 and other.cache_miss == "LoRA changed"
    for number in range(4):
        scheduling.ask(prompt(number + 10, 200), 20, lora=1)
    scheduling.run()
    scheduling.loras.unload("1")
    scheduling.scheduler.sweep()
    again = scheduling.ask(next_turn(job), lora=1)
    scheduling.run()
    assert again.cached == 0
    scheduling.loras.unload("1")
    scheduling.loras.unload("2")
    scheduling.scheduler.sweep()
    assert scheduling.scheduler.cache_stats()["held_bytes"] == 0


@pytest.mark.parametrize("cuts", [True, False])
def test_a_model_that_cannot_drop_a_part_is_read_again_and_never_wrong(cuts: bool) -> None:
    scheduling = Scheduling(streams=2, cuts=cuts)
    for number in range(8):
        scheduling.ask([*prompt(number % 3, 150), *prompt(number, 60)], 10)
    scheduling.run()
    job = scheduling.ask(prompt(20, 150), 30)
    scheduling.run()
    again = scheduling.ask(next_turn(job))
    scheduling.run()
    assert again.cached == 179, "what is all there needs no dropping"


def test_misses_are_counted_by_their_reasons() -> None:
    scheduling = Scheduling(streams=2)
    first = scheduling.ask(prompt(0, 300), 20, session="a", template="t")
    scheduling.run()
    on = scheduling.ask(next_turn(first), 20, session="a", template="t")
    scheduling.run()
    rewritten = scheduling.ask(prompt(1, 330), 20, session="a", template="t")
    scheduling.run()
    rendered = scheduling.ask([1, 2, 3, *prompt(1, 330)], 20, session="a", template="u")
    scheduling.run()
    short = scheduling.ask(prompt(3, 30), session="a", template="u")
    unrelated = scheduling.ask(prompt(4, 300), session="")
    scheduling.run()
    assert [job.cache_miss for job in (first, on, rewritten, rendered, short, unrelated)] == [
        "",
        "",
        "history rewritten",
        "template changed",
        "",
        "",
    ]
    assert scheduling.scheduler.cache_stats()["misses"] == {"history rewritten": 1, "template changed": 1}


@given(st.integers(0, 2**32), st.booleans(), st.sampled_from([0, 3_000, 1 << 20]))
@settings(max_examples=25, deadline=None)
def test_whatever_happens_when_every_reply_is_that_of_its_prompt_alone(seed: int, cuts: bool, cache_bytes: int) -> None:
    chance = random.Random(seed)
    scheduling = Scheduling(streams=chance.randint(1, 4), cache_bytes=cache_bytes, cuts=cuts)
    for _ in range(80):
        what = chance.random()
        if what < 0.4:
            old = chance.choice(scheduling.jobs) if scheduling.jobs and chance.random() < 0.7 else None
            start = (
                [*old.prompt, *old.completion][: chance.randint(1, 400)] if old else prompt(chance.randint(0, 3), chance.randint(1, 200))
            )
            asked = [*start, *prompt(chance.randint(0, 9), chance.randint(0, 80))]
            priority = chance.choice([Priority.LIVE, Priority.LIVE, Priority.EVALUATION, Priority.RUN])
            scheduling.ask(
                asked, chance.randint(1, 30), lora=chance.choice([0, 0, 1, 2]), priority=priority, session=chance.choice(["", "a", "b"])
            )
        elif what < 0.5 and scheduling.jobs:
            scheduling.scheduler.cancel(chance.choice(scheduling.jobs).id)
        elif what < 0.55:
            scheduling.loras.unload(chance.choice(["1", "2"]))
        elif what < 0.58:
            scheduling.model.broken = True
        for _ in range(chance.randint(0, 12)):
            scheduling.step()
    scheduling.run()
    held = [slot for slot in scheduling.scheduler._cache._slots if slot.busy]
    assert not held
    assert not [name for name, entry in scheduling.loras._entries.items() if entry.users]

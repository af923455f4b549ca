"""Who is computed when: streams keep flowing, live goes first, LoRAs take turns, and a cancelled place is free at once."""

from __future__ import annotations

from itertools import pairwise

import pytest

from daemon.engine.base import Delta, Priority
from daemon.engine.llama.fair_queue import QUEUE_LIMIT
from daemon.engine.llama.model import MIN_PIECE
from daemon.engine.llama.sequence import Embedding, Score
from daemon.engine.llama.turns import TURN_STEPS
from daemon.errors import Busy
from tests.engine.scheduling import Scheduling, prompt


@pytest.fixture
def scheduling() -> Scheduling:
    return Scheduling()


def test_all_finish_and_each_once(scheduling: Scheduling) -> None:
    jobs = [scheduling.ask(prompt(number), lora=number % 2) for number in range(6)]
    jobs.append(scheduling.ask(prompt(6), priority=Priority.EVALUATION))
    scheduling.run()
    for job in jobs:
        assert scheduling.kinds(job).count("finished") == 1 and scheduling.kinds(job)[-1] == "finished"


def test_a_call_holds_one_lora_and_turns_last_some_steps(scheduling: Scheduling) -> None:
    scheduling.ask(prompt(0), 40)
    scheduling.ask(prompt(1), 40, lora=1)
    scheduling.run()
    used = [lora for _, lora in scheduling.model.calls]
    changes = sum(left != right for left, right in pairwise(used))
    assert changes <= len(used) // TURN_STEPS + 3


def test_a_new_lora_is_read_and_says_its_first_token_whoever_has_the_turn(scheduling: Scheduling) -> None:
    scheduling.ask(prompt(0), 60)
    for _ in range(3):
        scheduling.step()
    job = scheduling.ask(prompt(1), 5, lora=1)
    scheduling.step()
    assert job.completion, "the first token waits for the turn of the LoRA"
    scheduling.run()


def test_streams_are_computed_in_the_order_of_their_slots_whatever_order_they_came_in() -> None:
    """llama.cpp makes one pass over the weights for neighbouring slots in ascending order, and several for any other order."""
    scheduling = Scheduling(streams=3)
    for number in (0, 1, 2):
        scheduling.ask(prompt(number, 80), 40)
    scheduling.run()
    for number in (2, 0, 1):
        scheduling.ask(prompt(number, 80), 40)
    scheduling.run()
    together = [[row.slot for row in rows] for rows, _ in scheduling.model.calls if len({row.slot for row in rows}) == 3]
    assert together and all(slots == [0, 1, 2] for slots in together)


def test_a_long_prompt_is_read_between_the_steps_of_a_running_stream(scheduling: Scheduling) -> None:
    scheduling.ask(prompt(0), 200)
    scheduling.step()
    scheduling.ask(prompt(50, 1000), 1)
    scheduling.run()
    calls = scheduling.model.calls
    slots = [rows[0].slot for rows, _ in calls]
    flowing = slots[: len(slots) - slots[::-1].index(0)]
    assert all(0 in pair for pair in pairwise(flowing[1:])), "two pieces without a token of the stream between"
    assert all(len(rows) >= MIN_PIECE for rows, _ in calls if rows[0].slot == 1)
    assert sum(len(rows) for rows, _ in calls if rows[0].slot == 1) == 1000


def test_live_goes_before_evaluation_and_evaluation_before_runs_at_every_token(scheduling: Scheduling) -> None:
    order: list[int] = []
    run = scheduling.ask(prompt(3), 20, priority=Priority.RUN)
    scheduling.step()
    evaluation = scheduling.ask(prompt(2), 20, priority=Priority.EVALUATION)
    scheduling.step()
    live = scheduling.ask(prompt(1), 20)
    for _ in range(300):
        order += [message["id"] for message in scheduling.step() if message["type"] == "finished" and isinstance(message["id"], int)]
    assert order == [live.id, evaluation.id, run.id]


def test_evaluation_is_computed_alone_and_never_on_cells_of_generated_tokens(scheduling: Scheduling) -> None:
    asked = prompt(1, 100)
    first = scheduling.ask(asked, 50, priority=Priority.EVALUATION)
    scheduling.ask(prompt(2), 4, priority=Priority.EVALUATION)
    scheduling.run()
    assert all(len({row.slot for row in rows}) == 1 for rows, _ in scheduling.model.calls)
    again = scheduling.ask([*asked, *first.completion, *prompt(3)], priority=Priority.EVALUATION)
    scheduling.run()
    assert again.cached == len(asked)


def test_a_cancelled_place_is_free_at_once(scheduling: Scheduling) -> None:
    jobs = [scheduling.ask(prompt(number), 100) for number in range(3)]
    for _ in range(4):
        scheduling.step()
    assert (scheduling.scheduler.active, scheduling.scheduler.queued) == (2, 1)
    scheduling.scheduler.cancel(jobs[0].id)
    scheduling.step()
    assert (scheduling.scheduler.active, scheduling.scheduler.queued) == (2, 0)
    for number in (2, 1, 99):
        scheduling.scheduler.cancel(number)
    assert scheduling.scheduler.active == 0


def test_a_failed_batch_ends_its_requests_and_no_others(scheduling: Scheduling) -> None:
    failed = [scheduling.ask(prompt(number, 80), 50) for number in range(2)]
    while not all(job.completion for job in failed):
        scheduling.step()
    scheduling.model.broken = True
    later = [scheduling.ask(prompt(number, 90), 5) for number in (0, 1, 2)]
    while scheduling.scheduler.active or scheduling.scheduler.queued:
        scheduling.step()
    assert {scheduling.kinds(job)[-1] for job in failed} == {"error"}
    for job in later:
        assert scheduling.kinds(job)[-1] == "finished"
        scheduling.check(job)


def test_a_reply_that_its_parser_cannot_bear_ends_alone(scheduling: Scheduling, monkeypatch: pytest.MonkeyPatch) -> None:
    beside, broken = scheduling.ask(prompt(0, 20), 8), scheduling.ask(prompt(1, 20), 8)

    def push(piece: bytes) -> list[Delta]:
        raise RecursionError

    monkeypatch.setattr(broken.reply, "push", push)
    while scheduling.scheduler.active or scheduling.scheduler.queued:
        scheduling.step()
    assert scheduling.kinds(broken)[-1] == "error"
    assert scheduling.kinds(beside)[-1] == "finished"
    scheduling.check(beside)


def test_the_queue_is_bounded_one_scenario_leaves_room_for_others_and_says_when_to_come_again() -> None:
    scheduling = Scheduling(streams=1)
    accepted = 0
    with pytest.raises(Busy) as refused:
        for accepted in range(QUEUE_LIMIT + 1):
            scheduling.ask(prompt(accepted), scenario="greedy")
    assert QUEUE_LIMIT // 2 <= accepted < QUEUE_LIMIT
    assert 1 <= refused.value.retry_after_s <= 60
    scheduling.ask(prompt(1), scenario="other")
    scheduling.ask(prompt(1), priority=Priority.EVALUATION, scenario="greedy")


def test_scenarios_take_turns_and_within_one_its_sessions() -> None:
    scheduling = Scheduling(streams=1)
    for session in ("a", "a", "a", "b"):
        scheduling.ask(prompt(1), 1, scenario="busy", session=session)
    scheduling.ask(prompt(1), 1, scenario="other")
    order = [message["id"] for _ in range(20) for message in scheduling.step() if message["type"] == "finished"]
    assert order == [0, 4, 3, 1, 2]


@pytest.mark.parametrize("priority", [Priority.EVALUATION, Priority.LIVE])
def test_scores_are_log_probabilities_of_the_text_itself_whatever_was_read_before(scheduling: Scheduling, priority: Priority) -> None:
    reply = scheduling.ask(prompt(1, 100), 3)
    scheduling.run()
    job = Score(100, [*reply.prompt, *reply.completion, 7], None, priority)
    scheduling.submit(job)
    while scheduling.scheduler.active or scheduling.scheduler.queued:
        scheduling.step()
    assert len(job.values) == 103
    assert job.values[-4:-1] == pytest.approx([0, 0, 0], abs=1e-4)
    assert job.values[-1] < -15


def test_vectors_are_made_between_steps_and_leave_no_cells_behind(scheduling: Scheduling) -> None:
    stream = scheduling.ask(prompt(0), 60)
    scheduling.step()
    job = Embedding(100, [prompt(1, 300), prompt(2, 3)], "mean")
    scheduling.submit(job)
    scheduling.run()
    assert len(job.vectors) == 2
    assert all(sum(value * value for value in vector) == pytest.approx(1, abs=1e-5) for vector in job.vectors)
    assert len(stream.completion) == 60
    assert scheduling.ask(prompt(1, 310)).cached == 0
    scheduling.run()

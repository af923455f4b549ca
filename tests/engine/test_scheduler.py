"""Who is computed when: streams keep flowing, live goes first, LoRAs take turns, and a cancelled place is free at once."""

from __future__ import annotations

from collections.abc import Sequence as Rows
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from daemon.engine.base import Priority
from daemon.engine.llama.loras import LoadedLoRAs
from daemon.engine.llama.model import MIN_PIECE, LoRAHandle, Row
from daemon.engine.llama.scheduler import LORA_TURN_STEPS, Scheduler
from daemon.engine.llama.sequence import Score, Sequence
from daemon.errors import EngineError
from tests.engine.jobs import greedy

SIZE = 300


class FakeModel:
    """The next token is the last one plus one; keeps the calls, and checks that positions continue."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[Row], LoRAHandle | None]] = []
        self.cells: dict[int, int] = {}
        self.broken = False
        self._loaded = 0

    def decode(self, rows: Rows[Row], lora: LoRAHandle | None) -> NDArray[np.float32]:
        if self.broken:
            self.broken = False
            raise EngineError("broken")
        self.calls.append((list(rows), lora))
        for row in rows:
            assert row.position == self.cells.get(row.slot, 0)
            self.cells[row.slot] = row.position + 1
        logits = np.zeros((sum(row.wants_logits for row in rows), SIZE), np.float32)
        for index, row in enumerate(row for row in rows if row.wants_logits):
            logits[index, (row.token + 1) % SIZE] = 20.0
        return logits

    def truncate(self, slot: int, length: int) -> int:
        self.cells[slot] = length
        return length

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b"x"

    def ends(self, token: int) -> bool:
        return False

    def load_lora(self, path: Path) -> LoRAHandle:
        self._loaded += 1
        return LoRAHandle(self._loaded)

    def free_lora(self, lora: LoRAHandle) -> None: ...


@pytest.fixture
def model() -> FakeModel:
    return FakeModel()


@pytest.fixture
def scheduler(model: FakeModel) -> Scheduler:
    loras = LoadedLoRAs(model)
    loras.load("lora", Path("x"))
    return Scheduler(model, model, loras, streams=2)


def sequence(number: int, length: int = 10, tokens: int = 5, lora: str | None = None, priority: Priority = Priority.LIVE) -> Sequence:
    return greedy(number, [(number + index) % SIZE for index in range(length)], lora, priority, tokens)


def run(scheduler: Scheduler, steps: int = 500) -> dict[int, list[str]]:
    """What each id was sent, until nothing is left to do."""
    seen: dict[int, list[str]] = {}
    for _ in range(steps):
        for message in scheduler.step():
            number = message["id"]
            assert isinstance(number, int)
            seen.setdefault(number, []).append(str(message["type"]))
        if not scheduler.active and not scheduler.queued:
            break
    return seen


def test_all_finish_and_each_once(scheduler: Scheduler) -> None:
    for number in range(6):
        scheduler.submit(sequence(number, lora="lora" if number % 2 else None))
    scheduler.submit(sequence(6, priority=Priority.EVALUATION))
    seen = run(scheduler)
    assert sorted(seen) == list(range(7))
    assert all(kinds.count("finished") == 1 and kinds[-1] == "finished" for kinds in seen.values())


def test_a_call_holds_one_lora_and_turns_last_some_steps(scheduler: Scheduler, model: FakeModel) -> None:
    scheduler.submit(sequence(0, tokens=40))
    scheduler.submit(sequence(1, tokens=40, lora="lora"))
    run(scheduler)
    used = [lora for _, lora in model.calls]
    changes = sum(left != right for left, right in pairwise(used))
    assert changes <= len(used) // LORA_TURN_STEPS + 2


def test_a_long_prompt_is_read_between_the_steps_of_a_running_stream(scheduler: Scheduler, model: FakeModel) -> None:
    scheduler.submit(sequence(0, tokens=100))
    scheduler.step()
    scheduler.submit(sequence(50, length=1000, tokens=1))
    run(scheduler)
    slots = [rows[0].slot for rows, _ in model.calls]
    flowing = slots[: len(slots) - slots[::-1].index(0)]
    assert all(0 in pair for pair in pairwise(flowing[1:]))  # never two pieces without a token of the stream between
    assert all(len(rows) >= MIN_PIECE for rows, _ in model.calls if rows[0].slot == 1)
    assert sum(len(rows) for rows, _ in model.calls if rows[0].slot == 1) == 1000


def test_live_goes_before_evaluation_and_evaluation_before_runs(scheduler: Scheduler) -> None:
    order: list[int] = []
    scheduler.submit(sequence(3, tokens=20, priority=Priority.RUN))
    scheduler.submit(sequence(2, tokens=20, priority=Priority.EVALUATION))
    scheduler.step()
    scheduler.submit(sequence(1, tokens=20))
    for _ in range(300):
        order += [m["id"] for m in scheduler.step() if m["type"] == "finished" and isinstance(m["id"], int)]
    assert order == [1, 2, 3]


def test_evaluation_is_computed_alone(scheduler: Scheduler, model: FakeModel) -> None:
    for number in range(3):
        scheduler.submit(sequence(number, tokens=4, priority=Priority.EVALUATION))
    run(scheduler)
    assert all(len({row.slot for row in rows}) == 1 for rows, _ in model.calls)


def test_a_cancelled_place_is_free_at_once(scheduler: Scheduler) -> None:
    for number in range(3):
        scheduler.submit(sequence(number, tokens=100))
    for _ in range(4):
        scheduler.step()
    assert (scheduler.active, scheduler.queued) == (2, 1)
    scheduler.cancel(0)
    scheduler.step()
    assert (scheduler.active, scheduler.queued) == (2, 0)
    scheduler.cancel(2)
    scheduler.cancel(1)
    scheduler.cancel(99)
    assert scheduler.active == 0


def test_a_second_turn_reads_only_what_is_new(scheduler: Scheduler, model: FakeModel) -> None:
    scheduler.submit(sequence(0, length=100, tokens=5))
    run(scheduler)
    before = len(model.calls)
    scheduler.submit(sequence(0, length=120, tokens=1))
    run(scheduler)
    assert sum(len(rows) for rows, _ in model.calls[before:]) == 120 - 104


def test_a_failed_batch_ends_its_requests_and_no_others(scheduler: Scheduler, model: FakeModel) -> None:
    scheduler.submit(sequence(0))
    scheduler.submit(sequence(1))
    for _ in range(4):
        scheduler.step()
    model.broken = True
    scheduler.submit(sequence(2))
    seen = run(scheduler)
    assert seen[0][-1] == seen[1][-1] == "error"
    assert seen[2][-1] == "finished"


def test_scores_are_log_probabilities_of_the_text_itself(scheduler: Scheduler) -> None:
    job = Score(1, [5, 6, 7, 100], None, Priority.EVALUATION)
    scheduler.submit(job)
    run(scheduler)
    assert job.values[:2] == pytest.approx([0, 0], abs=1e-4)
    assert job.values[2] < -15

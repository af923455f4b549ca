"""Learning by itself: only when idle, only with enough that is new, and not again and again with the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import time
from pathlib import Path

import pytest
from pydantic import JsonValue

from daemon.config import Config
from daemon.evolution import schedule
from daemon.evolution.runner import Runner
from daemon.evolution.schedule import Scheduler, on_mains, within
from daemon.experience.runs import Run, RunStatus
from daemon.records import JSON
from daemon.tokens import Tokens
from tests.evolution.parts import Parts, parts
from tests.experience.make import inference, user


@dataclass
class Noting(Runner):
    """Notes what would have been started, and ends it at once."""

    bench: Parts
    started: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        b = self.bench
        super().__init__(b.home, b.engine, b.serving, b.repository, b.runs, b.publisher, Tokens("c" * 20, "o" * 20))

    async def start(
        self,
        scenario: str,
        *,
        recipe: str | None = None,
        settings: Mapping[str, JSON] | None = None,
        trigger: str = "owner",
        dry_run: bool = False,
        seed: int | None = None,
    ) -> Run:
        self.started.append(f"{scenario} {trigger}")
        run = await asyncio.wrap_future(self.bench.runs.create(scenario, "demos", trigger=trigger))
        await asyncio.wrap_future(self.bench.runs.finish(run.id, RunStatus.DONE, verdict="held"))
        return run


def config(**learn: JsonValue) -> Config:
    return Config.model_validate({"reef": {"recipe": "demos", "batch_size": 2}, "learn": {"idle_s": 0, "on_battery": True, **learn}})


async def new_turns(bench: Parts, count: int, start: int = 0) -> None:
    for number in range(start, start + count):
        item = inference([user(f"question {number}")], "reply", session=f"s{number}", created_at=4e9 + number)
        await asyncio.wrap_future(bench.store.append(item))


def scheduler(bench: Parts, runner: Runner, settings: Config) -> Scheduler:
    return Scheduler(runner, bench.serving, bench.reader, bench.runs, lambda: settings)


async def test_enough_new_experience_triggers_once(tmp_path: Path) -> None:
    async with parts(tmp_path) as bench:
        runner = Noting(bench)
        due = scheduler(bench, runner, config())
        await new_turns(bench, 1)
        assert await due.check() is None
        await new_turns(bench, 1, start=1)
        assert await due.check() is not None
        assert await due.check() is None
        assert await scheduler(bench, runner, config()).check() is not None  # these turns are dated after that run
        assert runner.started == ["default schedule"] * 2


async def test_what_the_last_run_saw_triggers_no_other_after_a_restart(tmp_path: Path) -> None:
    async with parts(tmp_path) as bench:
        runner = Noting(bench)
        for number in range(3):
            item = inference([user(f"question {number}")], "reply", session=f"s{number}", created_at=1e9)
            await asyncio.wrap_future(bench.store.append(item))
        assert await scheduler(bench, runner, config()).check() is not None
        assert await scheduler(bench, runner, config()).check() is None


@pytest.mark.parametrize("learn", [{"mode": "manual"}, {"mode": "off"}, {"idle_s": 60.0}])
async def test_not_unless_it_may(tmp_path: Path, learn: dict[str, JsonValue]) -> None:
    async with parts(tmp_path) as bench:
        await new_turns(bench, 3)
        assert await scheduler(bench, Noting(bench), config(**learn)).check() is None


async def test_not_while_requests_run_nor_on_battery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with parts(tmp_path) as bench:
        await new_turns(bench, 3)
        bench.serving.activity.begin("other")
        assert await scheduler(bench, Noting(bench), config()).check() is None
        bench.serving.activity.end("other")
        monkeypatch.setattr(schedule, "on_mains", lambda: False)
        assert await scheduler(bench, Noting(bench), config(on_battery=False)).check() is None
        assert await scheduler(bench, Noting(bench), config(on_battery=True)).check() is not None


def test_hours_may_pass_midnight() -> None:
    assert within("always", time(12))
    assert within("22:00-07:00", time(23))
    assert within("22:00-07:00", time(6, 59))
    assert not within("22:00-07:00", time(7))
    assert within("09:00-17:00", time(12))
    assert not within("09:00-17:00", time(18))
    assert on_mains() in (True, False)

"""When a scenario learns by itself: it is idle, has enough new experience, may run now, and did not just try with the same.

New experience triggers once: after a run, whatever it decided, the next automatic one waits until more has come in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from datetime import time as clock

import psutil

from daemon.config import Config, LearnConfig
from daemon.errors import ReefError
from daemon.evolution.replaying import PROMOTE
from daemon.evolution.runner import SCHEDULED, Runner
from daemon.experience.reader import Reader
from daemon.experience.runs import RunStore
from daemon.experience.stream import ExperienceStream
from daemon.serving.serving import Serving

_log = logging.getLogger("reef.schedule")
CHECK_EVERY_S = 10.0
_DEFAULT_BATCH = 8
_LOOKED_BACK = 20


class Scheduler:
    """Looks at every scenario now and then and starts what is due."""

    def __init__(self, runner: Runner, serving: Serving, reader: Reader, runs: RunStore, config: Callable[[], Config]) -> None:
        """`config` gives the settings that hold now."""
        self._runner = runner
        self._serving = serving
        self._reader = reader
        self._runs = runs
        self._config = config
        self._looked: dict[str, int] = {}  # scenario → the stream's sequence when it was last looked through

    async def run_forever(self, every_s: float = CHECK_EVERY_S) -> None:
        """Until cancelled. What fails is logged and tried again with new experience."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.check()
            except ReefError as error:
                _log.warning("Cannot start a run: %s", error)

    async def check(self) -> str | None:
        """Start at most one run; its id."""
        if self._runner.active is not None:
            return None
        for scenario in sorted(self._serving.heads, key=self._serving.activity.idle_s, reverse=True):
            config = self._config().for_scenario(scenario)
            if not self._may_run(scenario, config.learn):
                continue
            if await asyncio.to_thread(self._has_enough, scenario, config):
                run = await self._runner.start(scenario, trigger=SCHEDULED)
                return run.id
        return None

    def _may_run(self, scenario: str, learn: LearnConfig) -> bool:
        return (
            learn.mode == "auto"
            and self._serving.activity.idle_s(scenario) >= learn.idle_s
            and self._serving.activity.in_flight == 0
            and within(learn.hours, datetime.now().time())
            and (learn.on_battery or on_mains())
        )

    def _has_enough(self, scenario: str, config: Config) -> bool:
        """Whether enough turns are new, some of them since the last run. The recipe decides by itself which it can use."""
        last = self._reader.counts(scenario).last_sequence
        if self._looked.get(scenario) == last:
            return False
        self._looked[scenario] = last
        wanted = config.reef.settings.get("batch_size", _DEFAULT_BATCH)
        new = ExperienceStream(self._reader, scenario).new()
        if len(new) < (wanted if isinstance(wanted, int) else _DEFAULT_BATCH):
            return False
        learning = (run for run in self._runs.list(scenario, limit=_LOOKED_BACK) if run.config.get("kind") != PROMOTE)
        previous = next(learning, None)  # a candidate's second evaluation looks at no experience
        return previous is None or any(
            max([turn.inference.created_at, *(report.created_at for report in turn.reports)]) > previous.started_at for turn in new
        )


def within(hours: str, now: clock) -> bool:
    """Whether `now` lies in `hours`: `always`, or `22:00-07:00` (which may pass midnight)."""
    if hours == "always":
        return True
    start, end = (clock.fromisoformat(part) for part in hours.split("-"))
    return start <= now < end if start <= end else now >= start or now < end


def on_mains() -> bool:
    """False only where it is known that a battery feeds this machine."""
    try:
        battery = psutil.sensors_battery() if "sensors_battery" in dir(psutil) else None
    except (OSError, psutil.Error):
        return True
    return battery is None or battery.power_plugged is not False

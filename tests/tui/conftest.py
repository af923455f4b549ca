"""The ground of the app's tests: no home folder, a clock that stands, pictures."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual import constants

from reef_cli.tui.tabs import TABS, pane_of
from tests.tui.fake_daemon import NOW
from tests.tui.looking import Snapshots


class StandingClock:
    """The module `time`, but for what the clock on the wall says. For our modules alone: Textual times how long a notice is shown."""

    def time(self) -> float:
        return NOW

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for tab in TABS:
        pane_of(tab.name)  # all that shows a time is imported now
    for name, module in list(sys.modules.items()):
        if name.startswith("reef_cli.") and vars(module).get("time") is time:
            monkeypatch.setattr(module, "time", StandingClock())
    monkeypatch.setenv("REEF_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "truecolor")  # whatever terminal the tests run in


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Iterator[Snapshots]:
    looked = Snapshots(bool(request.config.getoption("--renew-snapshots")))
    yield looked
    looked.finish()

"""The ground of the app's tests: no home folder, a clock that stands, pictures."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tui.fake_daemon import NOW
from tests.tui.looking import Snapshots


@pytest.fixture(autouse=True)
def standing_clock(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(time, "time", lambda: NOW)
    monkeypatch.setenv("REEF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    monkeypatch.delenv("COLORFGBG", raising=False)
    monkeypatch.delenv("NO_COLOR", raising=False)


@pytest.fixture
def snapshots(request: pytest.FixtureRequest) -> Iterator[Snapshots]:
    looked = Snapshots(bool(request.config.getoption("--renew-snapshots")))
    yield looked
    looked.finish()

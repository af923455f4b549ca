"""The app around its panes."""

from __future__ import annotations

from tests.tui.fake_daemon import FakeDaemon
from tests.tui.looking import Snapshots, opened, until


async def test_the_top_line_names_the_scenario_what_serves_and_what_waits(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon(), "engine") as pilot:
        shown = await until(pilot, "1 held")
        assert "reef  default ▾   ● r14 + LoRA   ◆ 1 held" in shown

"""The tab `Releases` over a real daemon's API: the shapes that the canned answers only imitate."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from daemon.harness_tree import HarnessTree
from daemon.paths import Home
from daemon.versions.manifest import EvaluationSummary
from reef_cli import running as found
from reef_cli.client import Client
from reef_cli.tui.app import ReefApp
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.widgets.feed import Feed
from tests.api.test_release_reading import evaluation, publish, rules
from tests.daemon.running import running
from tests.evolution.run_bench import bench
from tests.evolution.test_promoting import drafted, prefixed
from tests.tui.looking import settled, until


class Local(Client):
    """The client of a daemon in this process, which no lock file names."""

    def __init__(self, root: Path, port: int) -> None:
        self.home = Home(root)
        self.daemon = found.Running(0, "127.0.0.1", port, "", 0.0)
        self._token = self.home.owner_token.read_text(encoding="utf-8").strip()


async def test_releases_are_shown_compared_rolled_back_undone_promoted_and_pinned_for_real(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the explanation is written
    async with running(tmp_path) as daemon:
        summary = EvaluationSummary(held_out_before=0.5, held_out_after=0.75, tasks=4, wins=2, losses=1, ties=1, p=0.5)
        played = evaluation(("a", 0, 1), ("b", 0, 1), ("c", 1, 0), ("d", 1, 1))
        await publish(daemon, "- Run some tests.\n", summary=summary, evaluation=played)
        await publish(daemon, "- Run the tests.\n- Be brief.\n")
        await daemon.services.publisher.hold(rules(daemon, "- Run the tests.\n- Be brief.\n- Be kind.\n", verdict="held: too few tasks"))

        app = ReefApp(Daemon(partial(Local, tmp_path, daemon.port)))
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, "●   r3")
            shown = await until(pilot, "○ r4")
            assert "+1 rule · held-out 2→3 of 4 (+2 −1, p .5)" in shown and "━━╍───────" in shown
            feed = app.query_one(Feed)

            feed.select("r2")
            await until(pilot, "2 better, 1 worse, 1 the same, p .5")
            await pilot.press("c")
            shown = await until(pilot, "r2  →  r3")
            assert "− - Run some tests." in shown and "+ - Run the tests." in shown and "+ - Be brief." in shown
            await pilot.press("x")
            await until(pilot, "r3  →  r2")
            await pilot.press("escape")

            feed.select("r1")
            await pilot.press("m")
            feed.select("r2")
            await pilot.press("c")
            await until(pilot, "r1  →  r2")
            assert "+ Do a." in await until(pilot, "Tasks, held-out  2 better, 1 worse, 1 the same")
            await pilot.press("escape")
            feed.select("r1")
            await pilot.press("m")
            feed.select("r2")

            await pilot.press("r")
            await until(pilot, "r5 will serve r2's content")
            await pilot.press("y")
            await until(pilot, "●   r5")
            await pilot.press("u")
            await until(pilot, "r6 will serve what served before r5")
            await pilot.press("y")
            await until(pilot, "●   r6")

            feed.select("r4")
            await pilot.press("p")
            assert "The gate had said: held: too few tasks" in await until(pilot, "r7 will serve r4's content")
            await pilot.press("y")
            await until(pilot, "●   r7")
            assert "promoted as r7" in await until(pilot, "↑ r4")
            await until(pilot, "╭─ r7 ─")  # the new head is selected once it is told of

            feed.select("r2")
            await pilot.press("i")
            await until(pilot, "r2 is kept whole")
            await pilot.press("y")
            await until(pilot, "r2◆")

            await pilot.press("w")
            await until(pilot, "The text of a rule")
            await pilot.press(*"Be kind.", "enter")
            await until(pilot, "r7 brought")
            await pilot.press("enter")
            await settled(pilot)
            assert feed.selected == "r7"

            await pilot.press("e")
            await until(pilot, "Texts of sessions are left out.")
            assert "Be kind." in (tmp_path / "default-r7.html").read_text(encoding="utf-8")
            assert not app.bugs


@pytest.mark.e2e
async def test_an_aged_candidate_is_evaluated_on_what_serves_and_the_new_head_appears(tmp_path: Path) -> None:
    async with bench(tmp_path) as on:
        await on.services.publisher.hold(drafted(on, harness=prefixed("KNOWS"), change="+1 prefix"))
        await on.services.publisher.publish(drafted(on, harness=HarnessTree({"AGENTS.md": "- a person was faster\n"})), "r1")
        app = ReefApp(Daemon(partial(Local, on.services.home.root, on.daemon.port)))
        async with app.run_test(size=(120, 40), notifications=True) as pilot:
            await until(pilot, "○ r2")
            app.query_one(Feed).select("r2")
            await pilot.press("p")
            await until(pilot, "r2 was compared with r1; r3 serves now.")
            await pilot.press("y")
            await until(pilot, "●   r4", tries=6000)
            assert "promoted as r4" in await until(pilot, "promoted: ")
            assert not app.bugs

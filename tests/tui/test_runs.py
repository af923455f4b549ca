"""The tab `Runs` as a person uses it."""

from __future__ import annotations

from textual.pilot import Pilot
from textual.widgets import ContentSwitcher

from daemon.records import JSONObject
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.widgets.rows import Rows
from tests.tui import canned_runs
from tests.tui.canned_runs import BASE, RUNS, decided, evaluated, run, started, timed
from tests.tui.fake_daemon import NOW, FakeDaemon
from tests.tui.looking import LARGE, SMALL, Snapshots, opened, screen_text, settled, until

WIDE = (140, 60)


def fake(runs: list[JSONObject] | None = None) -> FakeDaemon:
    daemon = FakeDaemon(canned_runs.answers(runs))
    daemon.streams = canned_runs.streams()
    for one in RUNS if runs is None else runs:
        if one["ended_at"] is not None:
            daemon.end_stream(f"{BASE}/{one['run_id']}/events")
    return daemon


def details(pilot: Pilot[None]) -> Feed:
    return pilot.app.query_one("#run-details", Feed)


async def test_a_run_under_way_and_a_past_one_look_as_they_should(snapshots: Snapshots) -> None:
    async with opened(fake(), "runs", size=LARGE) as pilot:
        await until(pilot, "31 of 80")
        await snapshots.every_look(pilot, "runs", [LARGE])
    async with opened(fake(), "runs", size=SMALL) as pilot:
        await until(pilot, "31 of 80")
        await snapshots.every_look(pilot, "runs", [SMALL])
        await pilot.press("down", "enter")
        await until(pilot, "came out differently")
        await snapshots.every_look(pilot, "run")
        await pilot.press("escape", "e")
        await until(pilot, "Start a run")
        snapshots.look(pilot, "run-start")


async def test_without_any_run_it_says_how_one_comes_about(snapshots: Snapshots) -> None:
    async with opened(fake([]), "runs") as pilot:
        assert "press e" in await until(pilot, "Nothing was learned here yet")
        snapshots.look(pilot, "runs-empty")


async def test_a_run_is_followed_as_it_tells_to_its_decision_and_release() -> None:
    daemon = fake()
    path = f"{BASE}/run_now/events"
    daemon.streams[path] = timed(started())
    async with opened(daemon, "runs", size=WIDE) as pilot:
        assert "● running" in await until(pilot, "step 41 of 64 · loss 2.44 → 0.71 · 812 tokens/s")
        for event in timed(evaluated()):
            daemon.push(path, event)
        shown = await until(pilot, "31 of 80")
        assert "+6 −2 =23" in shown and "loss of general text 3.118 → 3.143, +0.8 %" in shown
        assert "explain-diff-3" in shown and "commit-message-2" not in shown, "what came out as before is folded"
        over = run("run_now", "sft", 207, "promoted", "better on the held-out tasks", "r15", ended_at=NOW)
        daemon.answers.update(canned_runs.answers([over, *RUNS[1:]]))
        for event in timed(decided()):
            daemon.push(path, event)
        daemon.end_stream(path)
        shown = await until(pilot, "LoRA r8 trained on 24 exchanges")
        assert "9 of the 11 tasks that came out differently were won, 2 lost;" in shown
        assert "probability" in shown and ".033" in shown
        assert "↑ promoted r15" in shown
        await pilot.press("o")
        await settled(pilot)
        assert pilot.app.query_one("#panes", ContentSwitcher).current == "releases"


async def test_a_connection_that_breaks_loses_and_repeats_nothing() -> None:
    daemon = fake()
    path = f"{BASE}/run_now/events"
    daemon.streams[path] = timed(started())
    async with opened(daemon, "runs", size=WIDE) as pilot:
        await until(pilot, "step 41 of 64")
        daemon.end_stream(path)  # the daemon stops
        await settled(pilot)
        daemon.push(path, {"type": "step", "step": 42, "steps": 64, "loss": 0.5})
        await until(pilot, "step 42 of 64 · loss 2.44 → 0.50")
        assert daemon.asked.count(("EVENTS", path, {"after": 0})) == 1
        assert ("EVENTS", path, {"after": len(timed(started()))}) in daemon.asked


async def test_tasks_unfold_to_all_of_them_and_to_their_replies() -> None:
    async with opened(fake(), "runs", size=WIDE) as pilot:
        await until(pilot, "31 of 80")
        feed = details(pilot)
        feed.focus()
        feed.select("split-held-in-2")
        await pilot.press("enter")
        await until(pilot, "# the answer to commit-message-1")
        feed.select("split-held-in")
        await pilot.press("enter")
        await until(pilot, "rename-branch-1")


async def test_a_past_run_says_first_what_came_of_it_and_a_failed_one_why() -> None:
    async with opened(fake(), "runs", size=WIDE) as pilot:
        rows = pilot.app.query_one("#run-list", Rows)
        rows.focus()
        rows.move_to("run_won")
        shown = await until(pilot, "came out differently")
        assert shown.index("came out differently") < shown.index("select")
        rows.move_to("run_bad")
        await pilot.press("enter")
        assert "! failed" in await until(pilot, "There is no recipe named 'acme'.")


async def test_starting_names_the_effect_offers_a_rehearsal_and_follows_the_run() -> None:
    daemon = fake(RUNS[1:])
    new = run("run_new", "demos", 0, trigger="owner")

    def start(body: JSONObject) -> JSONObject:
        daemon.answers.update(canned_runs.answers([new, *RUNS[1:]]))
        daemon.streams[f"{BASE}/run_new/events"] = timed([{"type": "phase", "phase": "select", "detail": "recipe demos"}])
        return new

    daemon.answers[f"POST {BASE}"] = start
    async with opened(daemon, "runs", size=WIDE) as pilot:
        await pilot.press("e")
        assert "learns from default's experience" in await until(pilot, "d [ ] dry run")
        await pilot.press("d", "up")
        await until(pilot, "d [x] dry run")
        await pilot.press("enter")
        await until(pilot, "recipe demos")
        assert daemon.bodies("POST", BASE) == [{"recipe": "demos", "dry_run": True}]
        assert pilot.app.query_one("#run-list", Rows).cursor_key == "run_new"


async def test_cancelling_asks_first_and_is_not_offered_where_nothing_runs() -> None:
    daemon = fake()
    over = run("run_now", "sft", 207, status="cancelled", sentence="cancelled")

    def cancel(body: JSONObject) -> JSONObject:
        daemon.answers.update(canned_runs.answers([over, *RUNS[1:]]))
        return over

    daemon.answers[f"DELETE {BASE}/run_now"] = cancel
    async with opened(daemon, "runs") as pilot:
        await pilot.press("c")
        await until(pilot, "Nothing is published")
        await pilot.press("escape")
        assert daemon.bodies("DELETE", f"{BASE}/run_now") == []
        await pilot.press("c", "y")
        await until(pilot, "− cancelled")
        assert "Cancel run" not in await until(pilot, "Evolve")


async def test_a_run_that_starts_elsewhere_is_turned_to_and_a_thousand_are_paged_through() -> None:
    many = [run(f"run_{number}", "sft", 10_000.5 + number, "nothing", f"nothing new since r{number}") for number in range(1000)]
    daemon = fake(many)
    async with opened(daemon, "runs") as pilot:
        rows = pilot.app.query_one("#run-list", Rows)
        rows.focus()
        for _ in range(5):
            await pilot.press("end")
            await settled(pilot)
        assert len(rows.keys) >= 120 and len(set(rows.keys)) == len(rows.keys)
        daemon.answers.update(canned_runs.answers([RUNS[0], *many]))
        daemon.tell("runs")
        await until(pilot, "31 of 80")
        assert rows.cursor_key == "run_now" and "● running" in screen_text(pilot)

"""The app around its panes: what a person sees of the daemon, how they get about, and that nothing ends it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from daemon.errors import Conflict, EngineError
from daemon.records import JSONObject
from reef_cli.tui.app import ReefApp
from reef_cli.tui.pane import Pane
from reef_cli.tui.themes import DARK, LIGHT
from tests.tui.fake_daemon import FakeDaemon, engine, engine_facts, scenario, status
from tests.tui.looking import SMALL, Snapshots, opened, screen_text, settled, until


async def test_the_top_line_names_the_scenario_what_serves_and_what_waits() -> None:
    daemon = FakeDaemon()
    async with opened(daemon, "engine") as pilot:
        assert "reef  default ▾   ● r14 + LoRA   ○ 1 held" in await until(pilot, "1 held")
        run: JSONObject = {"run_id": "run_1", "recipe": "recipes.sft.recipe:SFTRecipe", "phase": "evaluate"}
        daemon.answers["/reef/status"] = status([scenario(release_id="r15", held=[], run=run)])
        daemon.tell("head")
        shown = await until(pilot, "r15")
        assert "held" not in shown and "learning: SFTRecipe · evaluate" in shown


async def test_what_a_person_changed_in_an_agents_folder_is_seen_and_what_to_type() -> None:
    note = "default: changed by hand: AGENTS.md (changed); reef update default keeps it"
    daemon = FakeDaemon({"/reef/status": status(agents=[{"name": "default", "changed": ["AGENTS.md (changed)"], "notes": [note]}])})
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "± 1 by hand")
        await until(pilot, "AGENTS.md (changed); reef update default")
        daemon.answers["/reef/status"] = status([scenario(release_id="r15")])
        daemon.tell("head")
        assert "by hand" not in (await until(pilot, "r15")).splitlines()[0]


async def test_the_engine_tab_looks_like_its_pictures(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon(), "engine") as pilot:
        assert "98.0 MB model, else conversations" in await until(pilot, "history rewritten"), "why it takes more than its model"
        await snapshots.every_look(pilot, "engine")


async def test_an_engine_that_restarts_and_what_the_owner_should_know_are_seen(snapshots: Snapshots) -> None:
    facts = engine_facts(state="restarting", detail="The worker ended.", restarts=2, loras=[])
    asked = FakeDaemon(
        {"/reef/status": status(engine=facts, warnings=["The experience takes 2.1 GiB."]), "/reef/engine": engine(engine=facts)}
    )
    async with opened(asked, "engine") as pilot:
        shown = await until(pilot, "▲ restarting")
        assert "The experience takes 2.1 GiB." in shown and "▲ engine restarting" in shown.splitlines()[0]
        snapshots.look(pilot, "engine-restarting-80x24-dark")


async def test_a_lost_daemon_is_told_of_keeps_what_was_seen_and_comes_back_by_itself(snapshots: Snapshots) -> None:
    daemon = FakeDaemon()
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "SmolLM2")
        daemon.lose()
        shown = await until(pilot, "The daemon does not answer. Start it again: reef up")
        assert "SmolLM2" in shown and "○ not connected" in shown
        assert "starts it" not in shown, "its process runs: a second one would be refused"
        snapshots.look(pilot, "lost-80x24-dark")
        daemon.answers["/reef/status"] = status([scenario(release_id="r16")])
        daemon.come_back()
        shown = await until(pilot, "r16")
        assert "does not answer" not in shown


async def test_without_a_daemon_a_key_starts_one() -> None:
    daemon = FakeDaemon()
    daemon.there = False
    daemon.lose()
    async with opened(daemon, "engine") as pilot:
        shown = await until(pilot, "S starts it")
        assert "Start it" not in shown, "said once"
        await pilot.press("u")
        assert daemon.started == 0, "it takes back, wherever it does anything"
        await pilot.press("S")
        await until(pilot, "SmolLM2")
        assert daemon.started == 1


async def test_a_daemon_is_started_once_however_often_the_key_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    daemon, goes_on = FakeDaemon(), asyncio.Event()
    daemon.there = False
    daemon.lose()

    async def start() -> None:
        daemon.started += 1
        await goes_on.wait()
        raise EngineError("The model is not there.", "reef models")

    monkeypatch.setattr(daemon, "start", start)
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "S starts it")
        await pilot.press("S", "S")
        assert "S starts it" not in await until(pilot, "Starting the daemon")
        assert daemon.started == 1
        goes_on.set()
        shown = await until(pilot, "The model is not there. reef models")
        assert "S starts it" in shown


async def test_without_a_daemon_a_click_starts_one() -> None:
    daemon = FakeDaemon()
    daemon.there = False
    daemon.lose()
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "S starts it")
        await pilot.click("Banner")
        await until(pilot, "SmolLM2")
        assert daemon.started == 1


async def test_a_home_that_is_not_set_up_is_not_started() -> None:
    daemon = FakeDaemon()
    daemon.there = daemon.set_up = False
    daemon.lose()
    async with opened(daemon, "engine") as pilot:
        assert "starts it" not in await until(pilot, "does not answer")
        await pilot.press("S")
        await until(pilot, "reef init")
        assert daemon.started == 0


async def test_another_scenario_is_chosen_by_key_and_by_mouse(snapshots: Snapshots) -> None:
    daemon = FakeDaemon()
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "1 held")
        await pilot.press("s")
        await until(pilot, "12 sessions")
        await snapshots.every_look(pilot, "scenarios", sizes=(SMALL,))
        await pilot.press("down", "enter")
        assert "reef  pi ▾   ● r3" in await until(pilot, "● r3")
        assert isinstance(pilot.app, ReefApp) and pilot.app.pane is not None and pilot.app.pane.scenario == "pi"
        await pilot.click("#scenario")
        await until(pilot, "12 sessions")
        await pilot.press("escape")
        await settled(pilot)
        assert "reef  pi ▾" in screen_text(pilot)


async def test_tabs_are_turned_by_key_and_by_mouse() -> None:
    async with opened(FakeDaemon(), "engine") as pilot:
        app = pilot.app
        assert isinstance(app, ReefApp)
        await pilot.press("2")
        await settled(pilot)
        assert app.pane is not None and app.pane.title == "Sessions"
        await pilot.click("#tab-engine")
        await until(pilot, "SmolLM2")
        assert app.pane is not None and app.pane.title == "Engine"


async def test_a_tab_that_is_asked_for_before_the_first_one_is_there_is_the_one_that_shows() -> None:
    app = ReefApp(FakeDaemon(), theme=DARK)
    async with app.run_test(size=SMALL) as pilot:
        app.action_show("runs")
        app.action_show("engine")
        await until(pilot, "SmolLM2")
        assert app.pane is not None and app.pane.title == "Engine" and not app.bugs


async def test_the_keys_of_an_empty_tab_work_at_once() -> None:
    async with opened(FakeDaemon(), "runs") as pilot:
        await until(pilot, "Nothing was learned here yet")
        assert "Evolve" in screen_text(pilot).splitlines()[-1]


async def test_help_lists_the_keys_and_says_what_the_tab_shows(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon(), "engine") as pilot:
        await pilot.press("question_mark")
        shown = await until(pilot, "What computes now")
        for words in ("Look at another scenario", "Light or dark", "Quit"):
            assert words in shown
        await snapshots.every_look(pilot, "help", sizes=(SMALL,))
        await pilot.press("escape")
        assert "What computes now" not in await until(pilot, "SmolLM2")


async def test_the_palette_has_every_action_and_nothing_that_does_not_fit() -> None:
    async with opened(FakeDaemon(), "engine") as pilot:
        app = pilot.app
        assert isinstance(app, ReefApp)
        named = [command.title for command in app.get_system_commands(app.screen)]
        assert {"Scenario", "Light or dark", "Start the daemon", "Help", "Quit", "Show sessions"} <= set(named)
        assert len(named) == len(set(named)) and not {"Maximize", "Screenshot", "Theme", "Keys"} & set(named)
        await pilot.press("ctrl+p")
        await pilot.press(*"sessions")
        await until(pilot, "Show sessions")
        await pilot.press("down", "enter")
        await settled(pilot)
        assert app.pane is not None and app.pane.title == "Sessions"


async def test_the_theme_is_turned_and_remembered(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    async with opened(FakeDaemon(), "engine", theme="") as pilot:
        assert pilot.app.theme == DARK
        await pilot.press("t")
        assert pilot.app.theme == LIGHT
    assert json.loads((home / "app.json").read_text()) == {"theme": LIGHT}
    assert ReefApp(FakeDaemon()).theme == LIGHT
    (home / "app.json").write_text("{ spoiled")
    assert ReefApp(FakeDaemon()).theme == DARK


@pytest.mark.parametrize(("said", "theme"), [("0;15", LIGHT), ("15;0", DARK), ("0;default;7", LIGHT), ("", DARK)])
def test_a_light_terminal_that_says_so_gets_the_light_theme(monkeypatch: pytest.MonkeyPatch, said: str, theme: str) -> None:
    monkeypatch.setenv("COLORFGBG", said)
    assert ReefApp(FakeDaemon()).theme == theme


async def test_what_the_daemon_refuses_is_shown_and_the_app_goes_on() -> None:
    daemon = FakeDaemon({"/reef/engine": Conflict("r15 is the head now [bold].", "Look again.")})
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "r15 is the head now [bold]. Look again.")
        daemon.answers["/reef/engine"] = engine()
        daemon.tell("engine", "")
        await until(pilot, "SmolLM2")


async def test_a_bug_in_a_tab_is_logged_and_ends_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    async def refresh_from(self: Pane, changes: frozenset[str]) -> None:
        raise ZeroDivisionError("a bug of ours")

    async with opened(FakeDaemon(), "engine") as pilot:
        app = pilot.app
        assert isinstance(app, ReefApp)
        await until(pilot, "SmolLM2")
        with monkeypatch.context() as broken:
            broken.setattr(type(app.pane), "refresh_from", refresh_from)
            app._note(frozenset({"engine"}))
            await until(pilot, "a bug in Reef: ZeroDivisionError")
        assert [type(bug) for bug in app.bugs] == [ZeroDivisionError]
        logs = list((tmp_path / "home").rglob("reef-error-*.log"))
        assert len(logs) == 1 and "a bug of ours" in logs[0].read_text()
        app.bugs.clear()
        await pilot.press("question_mark")
        await until(pilot, "What computes now")


async def test_only_what_changed_is_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty changes of one number a second must not flicker: each paints the box that it is in, never the screen."""
    daemon = FakeDaemon()
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "SmolLM2")
        painted: list[int] = []
        compositor = pilot.app.screen._compositor
        render = compositor.render_update

        def counted(full: bool = False, **rest: object) -> object:
            update = render(full=full, **rest)  # type: ignore[arg-type]
            painted.append(len(compositor.render_strips()) if full else len(getattr(update, "spans", [])))
            return update

        monkeypatch.setattr(compositor, "render_update", counted)
        pane = pilot.app.pane  # type: ignore[attr-defined]
        for number in range(20):
            daemon.answers["/reef/engine"] = engine(in_flight=number % 10)
            await pane.refresh_from(frozenset({"engine"}))
            await pilot.pause()
        assert painted and max(painted) <= 8, f"lines painted an update: {painted}"
        painted.clear()
        await pane.refresh_from(frozenset({"engine"}))
        await pilot.pause()
        assert painted == [], "nothing changed"


async def test_changes_that_come_together_are_asked_for_once() -> None:
    daemon = FakeDaemon()
    async with opened(daemon, "engine") as pilot:
        await until(pilot, "SmolLM2")
        await asyncio.sleep(0.25)
        daemon.asked.clear()
        for _ in range(50):
            daemon.tell("engine", "")
        await asyncio.sleep(0.15)
        assert 1 <= sum(path == "/reef/engine" for _, path, _ in daemon.asked) <= 3

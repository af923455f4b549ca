"""The tab `Sessions` as a person uses it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import ContentSwitcher

from daemon.errors import NotFound
from daemon.records import JSON, JSONObject
from reef_cli.tui.pane import Pane
from reef_cli.tui.sessions.trajectory import rows_of
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.widgets.find import Find
from reef_cli.tui.widgets.rows import Rows
from tests.tui import conversations
from tests.tui.conversations import BASE, SESSIONS, TURNS, summary, turn
from tests.tui.fake_daemon import FakeDaemon
from tests.tui.looking import SMALL, Snapshots, opened, screen_text, settled, until

WIDE = (140, 40)


def fake(sessions: list[JSONObject] | None = None, turns: list[JSONObject] | None = None) -> FakeDaemon:
    daemon = FakeDaemon(conversations.answers(sessions, turns))
    daemon.answers["POST /reef/report"] = {"agent_record_id": "rep_2", "references": ["rec_3"]}
    return daemon


def session_list(pilot: Pilot[None]) -> Rows:
    return pilot.app.query_one("#session-list", Rows)


def trajectory(pilot: Pilot[None]) -> Feed:
    return pilot.app.query_one("#trajectory", Feed)


async def reading(pilot: Pilot[None], session: str = "ses_calc", title: str = "  The divide test fails") -> Feed:
    """Opens a session from the list, by keys."""
    rows = session_list(pilot)
    rows.focus()
    rows.move_to(session)
    await pilot.press("enter")
    await until(pilot, title[:60])
    await settled(pilot)
    return trajectory(pilot)


async def test_the_list_and_a_trajectory_look_as_they_should(snapshots: Snapshots) -> None:
    async with opened(fake(), "sessions") as pilot:
        await snapshots.every_look(pilot, "sessions", [SMALL])
        feed = await reading(pilot)
        feed.select("rec_2/0", top=True)
        await settled(pilot)
        await snapshots.every_look(pilot, "session")
        await pilot.press("enter")
        await settled(pilot)
        snapshots.look(pilot, "session-unfolded")


async def test_without_any_session_it_says_what_to_do(snapshots: Snapshots) -> None:
    async with opened(fake([]), "sessions") as pilot:
        assert "reef install pi" in await until(pilot, "No session yet")
        await snapshots.every_look(pilot, "sessions-empty")


async def test_each_turn_shows_what_it_adds_who_answered_and_what_is_known_of_it() -> None:
    async with opened(fake(), "sessions", size=(140, 60)) as pilot:
        await reading(pilot)
        shown = await until(pilot, "branch")
        for expected in (
            r"system  ▸ You are pi, a coding agent in a terminal\. · 4 lines",
            r"thinking  ▸ The user wants the failing test fixed\..* · 3 lines",
            r"call  bash  pytest -q",
            r"signals  ✗ tests failed",
            r"result  bash  =+ test session starts",
            r"call  edit  path: calc\.py · old: return a / b · new: if b == 0:",
            r"aside  Fix the divide test",
            r"3 ─+ ✓ good  r14 · 9m ago",
            r"report  ✓ good · note: short, and it ran the tests",
            r"4 branch: goes on from 3 with other words ─+ r15 · 2m ago",
        ):
            assert re.search(expected, shown), f"{expected}\n{shown}"
        assert "E           ZeroDivisionError" not in shown, "a long result is folded"


async def test_folds_open_by_key_and_by_mouse_and_close_again() -> None:
    async with opened(fake(), "sessions", size=(140, 60)) as pilot:
        feed = await reading(pilot)
        feed.select("rec_1/reply/thoughts")
        await pilot.press("enter")
        assert "Then I read calc.py." in await until(pilot, "▾ The user wants")
        await pilot.press("enter")
        await until(pilot, "▸ The user wants")
        shown = screen_text(pilot).splitlines()
        line = next(number for number, text in enumerate(shown) if "lines in all" in text)
        await pilot.click(offset=(80, line))
        await until(pilot, "ZeroDivisionError")
        await pilot.press("z")
        assert "▾ I run the suite" not in await until(pilot, "Answer in few words."), "what was not folded has no mark"


async def test_good_with_a_note_goes_to_the_selected_reply_and_is_seen_at_once() -> None:
    daemon = fake()
    async with opened(daemon, "sessions", size=WIDE) as pilot:
        feed = await reading(pilot)
        feed.select("rec_4/reply")
        await pilot.press("g")
        await until(pilot, "Then it takes the name of the operation")
        judged: list[JSON] = [{"score": -1.0, "feedback": {"note": "wordy"}}]
        daemon.answers.update(conversations.answers(SESSIONS, [*TURNS[:4], {**TURNS[4], "reports": judged}]))
        await pilot.press("escape", "b", *"wordy", "enter")
        await until(pilot, "✗ bad · note: wordy")
        assert daemon.bodies("POST", "/reef/report") == [{"score": -1.0, "references": ["rec_4"], "feedback": {"note": "wordy"}}]


async def test_in_the_list_the_whole_session_is_judged() -> None:
    daemon = fake()
    async with opened(daemon, "sessions") as pilot:
        session_list(pilot).focus()
        await pilot.press("down", "g")
        assert "that has no score" in (await until(pilot, "Every reply of")).replace("\n", " ")
        await pilot.press("enter")
        await until(pilot, "Good: 1 reply")
        assert daemon.bodies("POST", "/reef/report") == [{"score": 1.0, "session": "ses_calc"}]


async def test_new_turns_of_a_running_session_appear_without_moving_what_is_read() -> None:
    daemon = fake()
    async with opened(daemon, "sessions", size=(140, 24)) as pilot:
        feed = await reading(pilot)
        feed.select("rec_2/0", top=True)
        await settled(pilot)

        def read() -> list[str]:
            return [line.partition("││")[2][:76].rstrip() for line in screen_text(pilot).splitlines()[5:23]]

        before = read()
        newest = summary("ses_other", "A new session comes above", 0)
        grown = [newest, SESSIONS[0], {**SESSIONS[1], "last_sequence": int(str(SESSIONS[1]["last_sequence"])) + 1}, *SESSIONS[2:]]
        more = turn("rec_5", [{"role": "user", "content": "and the docs?"}], {"content": "They say it now."}, 0)
        daemon.answers.update(conversations.answers(grown, [*TURNS, more]))
        daemon.tell("records")
        await until(pilot, "A new session comes above")
        await settled(pilot)
        assert read() == before
        await pilot.press("end")
        assert "They say it now." in await until(pilot, "and the docs?")
        again = turn("rec_6", [{"role": "user", "content": "thanks"}], {"content": "It was little."}, 0)
        daemon.answers.update(conversations.answers([newest, {**grown[2], "reports": 9}, grown[1], *grown[3:]], [*TURNS, more, again]))
        daemon.tell("records")
        await until(pilot, "It was little.")  # who reads the end stays at the end


async def test_ten_thousand_sessions_are_paged_through_and_searched() -> None:
    many = [summary(f"ses_{number}", f"question {number}", float(number)) for number in range(10_000)]
    daemon = fake(many)
    async with opened(daemon, "sessions") as pilot:
        rows = session_list(pilot)
        rows.focus()
        assert len(rows.keys) == 50
        for _ in range(4):
            await pilot.press("end")
            await settled(pilot)
        assert len(rows.keys) >= 200 and rows.keys[-1] == f"ses_{len(rows.keys) - 1}"
        kept = rows.cursor_key
        daemon.tell("records")
        await settled(pilot)
        assert rows.cursor_key == kept and len(rows.keys) >= 200
        await pilot.press("slash")
        pilot.app.query_one("SessionsPane Find", Find).value = "question 7777"
        for _ in range(200):
            if len(rows.keys) == 1:
                break
            await pilot.pause(0.01)
        assert rows.keys == ["ses_7777"]
        await pilot.press("enter", "enter")
        await until(pilot, "ses_7777")
        await pilot.press("escape", "escape")
        await until(pilot, "question 3")
        await pilot.press("slash", *"xyzzy")
        daemon.answers[BASE] = {"sessions": []}
        await until(pilot, "nothing holds these words · esc shows all")


async def test_a_long_session_is_read_in_parts() -> None:
    turns = [turn(f"rec_{number}x", [{"role": "user", "content": f"question {number}."}], {"content": "yes"}, 1.0) for number in range(400)]
    daemon = fake([summary("ses_long", "It goes on and on", 9000, 400)], turns)
    async with opened(daemon, "sessions", size=WIDE) as pilot:
        await reading(pilot, "ses_long", "question 0.")
        assert "question 0." in screen_text(pilot)
        asked = [query for method, path, query in daemon.asked if path == f"{BASE}/ses_long"]
        assert all(int(str(query["limit"])) <= 100 for query in asked), "never all at once"
        for _ in range(12):
            await pilot.press("end")
            await settled(pilot)
        assert "question 399." in screen_text(pilot)


async def test_recorded_text_is_shown_and_never_obeyed() -> None:
    said = "\x1b[2J\x1b]0;title\x07[bold]not bold[/bold] \u202eolleh\u202c"
    turns = [turn("rec_1", [{"role": "user", "content": said}], {"content": said, "tool_calls": [conversations.call(said, said, "c1")]}, 5)]
    async with opened(fake([summary("ses_calc", said, 5, releases=[said])], turns), "sessions", size=WIDE) as pilot:
        await reading(pilot, title="bold")
        shown = screen_text(pilot)
        assert "[bold]not bold[/bold]" in shown
        assert not any(character in shown for character in "\x1b\x07\u202e")


async def test_export_asks_what_and_where_and_says_what_it_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    daemon = fake()
    daemon.answers["/reef/scenarios/default/export"] = {"text": '{"messages": []}\n', "lines": 1, "sessions": 1, "left_out": {}}
    (tmp_path / "ses_calc.openai.jsonl").write_text("mine")
    async with opened(daemon, "sessions") as pilot:
        await reading(pilot)
        await pilot.press("x")
        await until(pilot, "fine-tuning lines")
        await pilot.press("enter")
        await until(pilot, "ses_calc.openai.jsonl")
        await pilot.press("enter")
        await until(pilot, "will be overwritten")
        await pilot.press("escape")
        await settled(pilot)
        assert (tmp_path / "ses_calc.openai.jsonl").read_text() == "mine"
        await pilot.press("x", "enter", "enter", "y")
        await until(pilot, "1 line in")
        assert (tmp_path / "ses_calc.openai.jsonl").read_text() == '{"messages": []}\n'


async def test_forgetting_names_the_releases_that_were_trained_on_it_before_it_forgets(snapshots: Snapshots) -> None:
    daemon = fake()
    plan: JSONObject = {
        "session": "ses_calc",
        "records": ["rec_1", "rec_2"],
        "reports": ["rep_1"],
        "runs": ["run_1"],
        "releases": [{"scenario": "default", "release_id": "r14", "state": "published", "trained": True, "files": 0, "serving": True}],
    }
    daemon.answers["POST /reef/scenarios/default/forget"] = lambda body: {**plan, "head": "r15", "scrubbed": True, "dropped": []}
    async with opened(daemon, "sessions") as pilot:
        await reading(pilot)
        await pilot.press("f")
        await until(pilot, "A LoRA cannot unlearn")
        await pilot.press("down", "enter")
        shown = await until(pilot, "Forget this session")
        assert "r14, serves now: its LoRA was trained on it." in shown and "cannot be undone" in shown
        snapshots.look(pilot, "session-forget")
        assert [body.get("dry_run") for body in daemon.bodies("POST", "/reef/scenarios/default/forget")] == [True]
        daemon.answers.update(conversations.answers([SESSIONS[0], *SESSIONS[2:]]))
        await pilot.press("y")
        await until(pilot, "r15 serves now, without it.")
        assert daemon.bodies("POST", "/reef/scenarios/default/forget")[-1] == {"session": "ses_calc", "retire": True}
        assert "ses_calc" not in session_list(pilot).keys


async def test_a_session_that_was_forgotten_meanwhile_leaves_the_list_without_a_fuss() -> None:
    daemon = fake()
    async with opened(daemon, "sessions") as pilot:
        daemon.answers.update(conversations.answers([SESSIONS[0], *SESSIONS[2:]]))
        daemon.answers[f"{BASE}/ses_calc"] = NotFound("There is no session ses_calc.", "")
        session_list(pilot).focus()
        await pilot.press("down", "enter")
        await settled(pilot)
        assert "ses_calc" not in session_list(pilot).keys


async def test_another_tab_can_lead_to_a_session_and_a_turn_to_its_release() -> None:
    daemon = fake()
    async with opened(daemon, "releases") as pilot:
        app = pilot.app
        app.post_message(Pane.Go("Sessions", "ses_calc"))
        await until(pilot, "Then it takes the name")
        await pilot.press("o")
        await settled(pilot)
        assert app.query_one("#panes", ContentSwitcher).current == "releases"


def test_arguments_that_are_no_json_and_answers_without_fields_are_shown_as_they_are() -> None:
    odd: list[JSONObject] = [
        {},
        {"receipt": "a", "reply": {"tool_calls": [{"function": {"name": "x", "arguments": "{not json"}}, {"function": {}}, "?"]}},
        {"receipt": "b", "added": [{"role": "user", "content": [{"type": "image_url"}, {"type": "text", "text": "what is it?"}]}]},
        {"receipt": "c", "reports": [{"score": 0, "feedback": "so so"}], "signals": ["new_signal"]},
    ]
    lines = ["".join(text for text, _ in line) for row in rows_of(odd) for line in row.lines(80)]
    shown = "\n".join(lines)
    for expected in ("x  {not json", "[image_url]", "what is it?", "· neutral · so so", "new signal"):
        assert expected in shown

"""The tab `Releases`: what is shown."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.records import JSONObject
from reef_cli.tui.releases.chain import Chain
from reef_cli.tui.releases.release import Release, State, read
from reef_cli.tui.releases.rows import rows
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.wrapping import cells
from tests.tui.fake_daemon import FakeDaemon
from tests.tui.looking import LARGE, Snapshots, opened, screen_text, settled, until
from tests.tui.release_answers import BASE, answers, chain, detail, item, page


def _line(text: str, start: str) -> str:
    return next(line for line in text.splitlines() if start in line)


async def test_the_chain_tells_what_serves_what_waits_and_what_was_better(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon(answers())) as pilot:
        shown = await until(pilot, "r7")
        assert "● " in _line(shown, "r14  ") and "+2 rules −1 skill · held-out 61→68 of 80" in _line(shown, "r14  ")
        assert "○ r13" in shown and "↑ r9" in shown and "× r7" in shown
        assert "━━━╍──────" in _line(shown, "○ r15"), "three better, one worse, little evidence"
        assert "━╍╍╍╍╍╍╍╍╍" in _line(shown, "× r7"), "it was worse nearly everywhere"
        await pilot.press("down")
        await until(pilot, "promoted: 9 wins")
        await snapshots.every_look(pilot, "releases")


async def test_the_details_lie_beside_the_list_where_there_is_room_and_else_open_over_it(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon(answers())) as pilot:
        await pilot.press("down", "enter")
        shown = await until(pilot, "Learned from")
        assert "r13" not in shown, "the details have the whole tab"
        await snapshots.every_look(pilot, "releases-details", sizes=[(80, 24)])
        await pilot.press("escape")
        assert "r13" in await until(pilot, "r13")
        await pilot.resize_terminal(*LARGE)
        shown = await until(pilot, "Fix the parser's handling of tabs")
        assert "r13" in shown and "12 exchanges in 2 sessions" in shown and "rank 16, 9.4 MB" in shown


async def test_recorded_text_is_neither_markup_nor_terminal_control() -> None:
    evil = item(16, "\x1b]0;owned\x07[red]loud[/red] \x9b31m", 0, verdict="[link=x]\x1b[2J", current=True)
    daemon = FakeDaemon({**answers(), f"{BASE}/releases": page([evil, *chain()[2:]]), f"{BASE}/releases/r16": {**detail(), **evil}})
    async with opened(daemon, size=LARGE) as pilot:
        shown = await until(pilot, "Why does the test hang")
        assert "[red]loud[/red]" in shown and "[link=x]" in shown
        assert "\x1b" not in shown and "\x9b" not in shown and "\x07" not in shown


async def test_the_first_release_says_what_to_do_next() -> None:
    first = item(1, "the base model, without LoRA or harness", 0, "creation", current=True, who="daemon")
    daemon = FakeDaemon({**answers(), f"{BASE}/releases": page([first]), f"{BASE}/releases/r1": {**first, "files": {}, "artifacts": []}})
    async with opened(daemon, size=LARGE) as pilot:
        shown = await until(pilot, "Nothing was learned yet.")
        assert "the first release" in shown and "by creation" not in shown and "asked by" not in shown
        assert "u Undo" not in shown.splitlines()[-1], "there is nothing to undo"


async def test_a_scenario_without_a_release_says_what_makes_one(snapshots: Snapshots) -> None:
    async with opened(FakeDaemon({f"{BASE}/releases": page([])})) as pilot:
        await until(pilot, "has no release yet")
        await snapshots.every_look(pilot, "releases-empty")


async def test_the_cursor_stays_on_its_release_when_a_new_one_comes() -> None:
    daemon = FakeDaemon(answers())
    async with opened(daemon) as pilot:
        await pilot.press("down", "down", "down")
        newer = item(16, "+1 skill", 0, current=True)
        daemon.answers[f"{BASE}/releases"] = page([newer, *({**release, "current": False} for release in chain())])
        daemon.tell("head")
        shown = await until(pilot, "r16  ")
        assert pilot.app.query_one(Feed).selected == "r12"
        assert "● " in _line(shown, "r16  ") and "• " in _line(shown, "r14  ")


async def test_a_thousand_releases_come_by_pages_and_any_of_them_is_found() -> None:
    everything = [item(number, f"+{number} rules", 1001 - number, current=number == 1000) for number in range(1000, 0, -1)]
    everything[990] = {**everything[990], "change": "the needle", "line": "the needle", "parts": []}
    asked: list[JSONObject] = []

    def answer(query: JSONObject) -> JSONObject:
        asked.append(query)
        before = int(str(query.get("before", "r1001"))[1:])
        found = [release for release in everything if int(str(release["release_id"])[1:]) < before][: int(str(query["limit"]))]
        last = found[-1]["release_id"]
        return {**page(found), "next": None if last == "r1" else last}

    daemon = FakeDaemon(
        {f"{BASE}/releases": answer, **{f"{BASE}/releases/r{number}": everything[1000 - number] for number in (1000, 901, 10)}}
    )
    async with opened(daemon) as pilot:
        await until(pilot, "r1000")
        assert all("before" not in query for query in asked), "what nobody looks at is not asked for"
        await pilot.press("end")
        await settled(pilot)
        await until(pilot, "r901")
        await until(pilot, "r9")
        assert [query["before"] for query in asked if "before" in query][:3] in (["r901"], ["r901", "r801"])
        await pilot.press("slash", *"needle")
        shown = await until(pilot, "the needle")
        assert "r10" in _line(shown, "the needle") and "r1000" not in shown
        await pilot.press("escape")
        assert "r10" in await until(pilot, "+11 rules"), "what was found keeps the cursor when all is shown again"


async def test_states_are_words_to_find_by() -> None:
    async with opened(FakeDaemon(answers())) as pilot:
        await pilot.press("slash", *"held")
        await settled(pilot)
        shown = screen_text(pilot)
        assert "r15" in shown and "r13" in shown and "r10" not in shown
        await pilot.press(*(["backspace"] * 4), *"pinned", "enter")
        await settled(pilot)
        assert pilot.app.query_one(Feed).selected == "r5"
        assert "esc All" in (await until(pilot, "esc All")).splitlines()[-1]
        await pilot.press("escape")
        assert "esc All" not in (await until(pilot, "r10")).splitlines()[-1], "all is shown again, from the list too"
        await pilot.press("slash", *"xyzzy")
        await until(pilot, "nothing holds these words · esc shows all")


async def test_why_names_the_releases_and_sessions_behind_a_line(snapshots: Snapshots) -> None:
    daemon = FakeDaemon(answers())
    async with opened(daemon) as pilot:
        await pilot.press("w")
        await until(pilot, "The text of a rule")
        await pilot.press(*"you say", "enter")
        shown = await until(pilot, "brought back")
        assert "AGENTS.md:4" in shown and "Fix the parser's handling of tabs" in shown and "It serves now." in shown
        assert ("GET", f"{BASE}/why", {"text": "you say"}) in daemon.asked
        await snapshots.every_look(pilot, "releases-why")
        await pilot.press("enter")
        await settled(pilot)
        assert pilot.app.query_one(Feed).selected == "r14"


@st.composite
def releases(draw: st.DrawFn) -> Release:
    wins, losses, ties = draw(st.integers(0, 300)), draw(st.integers(0, 300)), draw(st.integers(0, 300))
    counts: JSONObject = {"tasks": wins + losses + ties, "wins": wins, "losses": losses, "ties": ties}
    evaluation: JSONObject = {"held_out_before": 0.5, "held_out_after": 0.6, **counts}
    made = read(item(draw(st.integers(1, 99_999)), draw(st.text(max_size=80)), 3, evaluation=evaluation, pinned=draw(st.booleans())))
    return replace(made, state=draw(st.sampled_from(State)), aged=draw(st.booleans()))


@settings(deadline=None)
@given(release=releases(), width=st.integers(40, 200), marked=st.booleans())
def test_a_row_never_leaves_its_width_and_never_breaks_its_line(release: Release, width: int, marked: bool) -> None:
    [row] = rows([release], release.id if marked else "", complete=True)
    for line in row.lines(width):
        assert sum(cells(text) for text, _ in line) <= width
        assert all(text.isprintable() for text, _ in line)


@settings(deadline=None)
@given(st.lists(st.one_of(st.integers(1, 12), st.sampled_from(["refresh", "more"])), max_size=20))
def test_what_is_loaded_has_no_gap_whatever_is_published_meanwhile(steps: list[int | str]) -> None:
    """A number: so many releases are published. Pages of five."""
    published = [item(1, "the base model", 0)]

    def answer(query: JSONObject) -> JSONObject:
        before = int(str(query.get("before", "r9999"))[1:])
        below = [release for release in reversed(published) if int(str(release["release_id"])[1:]) < before]
        return {**page(below[:5]), "next": below[4]["release_id"] if len(below) > 5 else None}

    async def play() -> None:
        loaded = Chain(FakeDaemon({f"{BASE}/releases": answer}), "default")
        await loaded.refresh()
        for step in steps:
            if isinstance(step, int):
                published.extend(item(len(published) + 1, "+1 rule", 0) for _ in range(step))
            elif step == "more":
                await loaded.load_more()
            else:
                await loaded.refresh()
                assert loaded.releases[0].number == len(published)
            numbers = [release.number for release in loaded.releases]
            assert numbers == list(range(numbers[0], numbers[-1] - 1, -1))
            assert loaded.complete == (numbers[-1] == 1)

    asyncio.run(play())

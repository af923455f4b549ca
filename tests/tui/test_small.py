"""Terminals with few columns or lines: what matters most is still there, and nothing runs into its neighbour."""

from __future__ import annotations

import pytest

from daemon.records import JSONObject
from reef_cli.tui.widgets.feed import Feed
from tests.tui.fake_daemon import FakeDaemon, scenario, status
from tests.tui.looking import opened, screen_text, settled, until
from tests.tui.release_answers import answers

_ALWAYS = ("m Mark", "c Compare", "w Why", "e Explain", "/ Find", "? Help", "q Quit")


async def test_at_80_columns_the_last_line_names_each_key_that_fits_the_release() -> None:
    held, earlier, serving = ("p Promote", "x Dismiss"), ("r Roll back", "u Undo", "i Pin"), ("u Undo", "i Pin")
    async with opened(FakeDaemon(answers())) as pilot:
        for release, offered, other in (("r13", held, "r Roll back"), ("r12", earlier, "p Promote"), ("r14", serving, "r Roll back")):
            pilot.app.query_one(Feed).select(release)
            for _ in range(200):
                if other not in (line := screen_text(pilot).splitlines()[-1]) and offered[0] in line:
                    break
                await pilot.pause(0.01)
            assert [key for key in (*_ALWAYS, *offered) if key not in line] == [] and other not in line


async def test_where_keys_have_no_room_help_and_the_way_out_stay() -> None:
    async with opened(FakeDaemon(answers()), size=(44, 15)) as pilot:
        line = (await until(pilot, "m Mark")).splitlines()[-1]
        assert "? Help q Quit" in line and "Explain" not in line
        await pilot.resize_terminal(120, 30)
        await until(pilot, "e Explain  / Find  ? Help  q Quit")


@pytest.mark.parametrize("tab", ["releases", "sessions", "runs", "engine"])
async def test_thirty_columns_and_eight_lines_show_the_list_and_where_one_is(tab: str) -> None:
    async with opened(FakeDaemon(answers()), tab, size=(30, 8)) as pilot:
        await settled(pilot)
        lines = screen_text(pilot).splitlines()
        assert lines[0].startswith(" ≋ default ▾   ● r14")
        assert lines[1] == " 1 Rele 2 Sess 3 Runs 4 Engi"
        assert lines[-1].split()[-4:] == ["?", "Help", "q", "Quit"]
        if tab == "releases":
            assert any("▌" in line and "r15" in line for line in lines), "the list has the room, the details come by enter"
            await pilot.press("enter")
            await until(pilot, "held")
            await pilot.press("escape")
            await until(pilot, "▌")


async def test_what_learns_keeps_clear_of_what_serves() -> None:
    run: JSONObject = {"run_id": "run_1", "recipe": "recipes.sft.recipe:SFTRecipe", "phase": "evaluate"}
    daemon = FakeDaemon({"/reef/status": status([scenario(release_id="r1234", held=["r1235"], run=run)])})
    async with opened(daemon, "engine", size=(60, 15)) as pilot:
        for width in (60, 59, 46, 30):
            await pilot.resize_terminal(width, 15)
            await settled(pilot)
            line = (await until(pilot, "r1234")).splitlines()[0]
            serves, _, learns = line.rpartition("◐")
            assert serves.endswith(" ") and (learns == "" if width < 60 else learns.startswith(" learning")), line

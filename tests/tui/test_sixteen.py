"""Terminals of sixteen colours: what is written can be read, and what a colour says is still said by one."""

from __future__ import annotations

import pytest
from rich.color import Color, ColorSystem
from textual import constants
from textual.pilot import Pilot

from reef_cli.tui.themes import DARK, LIGHT, THEMES, themes
from tests.tui.fake_daemon import FakeDaemon
from tests.tui.looking import opened, until
from tests.tui.release_answers import answers


def seen(pilot: Pilot[None]) -> dict[tuple[int | None, int | None], str]:
    """Text by the numbers of its colour and of what is behind it, as the terminal gets them."""
    found: dict[tuple[int | None, int | None], str] = {}
    for strip in pilot.app.screen._compositor.render_strips():
        for text, style, _ in strip:
            if style is not None and text.strip():
                pair = _number(style.color), _number(style.bgcolor)
                found[pair] = found.get(pair, "") + text
    return found


def _number(color: Color | None) -> int | None:
    return color.downgrade(ColorSystem.STANDARD).number if color is not None else None


@pytest.mark.parametrize("look", [DARK, LIGHT])
async def test_nothing_is_written_in_the_colour_behind_it(monkeypatch: pytest.MonkeyPatch, look: str) -> None:
    monkeypatch.setattr(constants, "COLOR_SYSTEM", "standard")
    async with opened(FakeDaemon(answers()), theme=look, size=(120, 40)) as pilot:
        hardly = (8, 0) if look == DARK else (7, 15)
        used: set[int | None] = set()
        for keys, text in (("1", "61→68"), ("c", "held-out"), ("4", "SmolLM2"), ("s", "12 sessions")):
            await pilot.press(keys)
            await until(pilot, text)
            for (ink, paper), words in seen(pilot).items():
                if any(sign.isalnum() for sign in words):
                    assert ink != paper, words
                    assert keys == "s" or (ink, paper) != hardly, f"hardly read: {words}"  # what lies behind a dialog steps back
                used.add(ink)
        good, waiting = (10, 11) if look == DARK else (2, 3)
        assert {good, waiting} <= used, "green and yellow are no greys"


def test_elsewhere_the_soft_colours_stay() -> None:
    assert themes("truecolor") == themes("256") == themes(None) == THEMES
    assert {theme.name for theme in themes("standard")} == {theme.name for theme in THEMES}
    assert themes("standard") != THEMES

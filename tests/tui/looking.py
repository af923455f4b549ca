"""Opens the app in a test, and compares what it shows with pictures."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest
from rich.console import Console
from textual.pilot import Pilot

from reef_cli.tui.app import ReefApp
from reef_cli.tui.themes import DARK, LIGHT
from tests.tui.fake_daemon import FakeDaemon

SNAPSHOTS = Path(__file__).parent / "snapshots"
SMALL, LARGE = (80, 24), (120, 40)
_TRIES = 40
_UNSTABLE = re.compile(r"terminal-\d+")
_CLIPPING = re.compile(r' clip-path="url\(#terminal-line-\d+\)"|<clipPath id="terminal-line-\d+">.*?</clipPath>\s*', re.DOTALL)
_REMOTE_FONT = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)


@contextlib.asynccontextmanager
async def opened(
    daemon: FakeDaemon, tab: str = "releases", size: tuple[int, int] = SMALL, theme: str = DARK, scenario: str = "default"
) -> AsyncIterator[Pilot[None]]:
    """The app at a tab, with its first answers shown. Fails at the end where the app went on after a bug."""
    app = ReefApp(daemon, scenario, theme, tab)
    async with app.run_test(size=size, notifications=True) as pilot:
        while app.pane is None:
            await pilot.pause(0.01)
        await settled(pilot)
        yield pilot
    if app.bugs:
        raise app.bugs[0]


async def settled(pilot: Pilot[None]) -> None:
    """Until all messages are dealt with, and what they asked the daemon for is shown."""
    for _ in range(3):
        await pilot.pause()


async def until(pilot: Pilot[None], text: str, tries: int = 200) -> str:
    """The screen's text once it holds `text`; fails with what it holds instead."""
    for _ in range(tries):
        if text in (shown := screen_text(pilot)):
            return shown
        await pilot.pause(0.01)
    raise AssertionError(f"{text!r} does not come. The screen:\n{screen_text(pilot)}")


def screen_text(pilot: Pilot[None]) -> str:
    """What the terminal shows, line by line; a dialog with what lies beside it."""
    app = pilot.app
    console = Console(width=app.size.width, height=app.size.height, file=io.StringIO(), force_terminal=True, record=True)
    console.print(app.screen._compositor.render_update(full=True, screen_stack=app._background_screens))
    return "\n".join(line.rstrip() for line in console.export_text().splitlines())


class Snapshots:
    """Compares pictures; `--renew-snapshots` writes them anew instead."""

    def __init__(self, renew: bool) -> None:
        self._renew = renew
        self._different: list[str] = []

    async def every_look(self, pilot: Pilot[None], name: str, sizes: Iterable[tuple[int, int]] = (SMALL, LARGE)) -> None:
        """This screen at 80×24 and 120×40, in both themes: four pictures."""
        app = pilot.app
        size, theme = app.size, app.theme
        for width, height in sizes:
            await pilot.resize_terminal(width, height)
            for look in (DARK, LIGHT):
                app.theme = look
                await settled(pilot)
                await self.settled_look(pilot, f"{name}-{width}x{height}-{look.removeprefix('reef-')}")
        app.theme = theme
        await pilot.resize_terminal(size.width, size.height)
        await settled(pilot)

    async def settled_look(self, pilot: Pilot[None], name: str) -> None:
        """As `look`, but on a busy machine what a new size sets going gets its time."""
        for _ in range(_TRIES):
            before = _picture(pilot)
            if not self._renew and _is_kept(name, before):
                return
            await pilot.pause(0.02)
            await settled(pilot)
            if self._renew and _picture(pilot) == before:
                break
        self.look(pilot, name)

    def look(self, pilot: Pilot[None], name: str) -> None:
        """This screen as it is, against `snapshots/NAME.svg`."""
        svg = _picture(pilot)
        if self._renew:
            (SNAPSHOTS / f"{name}.svg").write_text(svg, encoding="utf-8")
            return
        if not _is_kept(name, svg):
            SNAPSHOTS.joinpath(f"{name}.new.svg").write_text(svg, encoding="utf-8")
            self._different.append(name)

    def finish(self) -> None:
        """Raises AssertionError that names what differs."""
        if self._different:
            names = ", ".join(f"{name}.new.svg" for name in self._different)
            pytest.fail(
                f"The app looks different: compare tests/tui/snapshots/{names} with the picture beside it."
                " If it is meant: pytest tests/tui --renew-snapshots",
                pytrace=False,
            )


def _picture(pilot: Pilot[None]) -> str:
    return stable(pilot.app.export_screenshot(title="reef", simplify=True))


def _is_kept(name: str, svg: str) -> bool:
    kept = SNAPSHOTS / f"{name}.svg"
    return kept.exists() and kept.read_text(encoding="utf-8") == svg


def stable(svg: str) -> str:
    """Without what differs from run to run, without fonts of other hosts, and without the clipping of each line, which is half of it."""
    return _CLIPPING.sub("", _REMOTE_FONT.sub("", _UNSTABLE.sub("terminal", svg)))

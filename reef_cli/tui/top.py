"""The lines above the panes: what serves and learns, the tabs, and the banner of a lost daemon."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Click

from daemon.errors import ReefError
from reef_cli import output
from reef_cli.tui.widgets.steady import Steady

if TYPE_CHECKING:
    from daemon.records import JSONObject


_SLIM_BELOW = 60
_SIGNS = ("○", "◐", "▲")
"""What a slim terminal shows of the connection and of what learns."""
_AIRY_TAB, _TIGHT_TAB = 5, 3
"""Cells of a tab beside its name: its key, and the air around it."""


class TopLine(Horizontal):
    """The scenario and what serves at the left, what learns and the connection at the right."""

    DEFAULT_CSS = """
    TopLine {
        height: 1;
        padding: 0 1;
        background: $panel;
    }
    TopLine > #scenario {
        width: auto;
        max-width: 32;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    TopLine > #scenario:hover {
        text-style: underline;
    }
    TopLine > #serves {
        width: 1fr;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    TopLine > #learns {
        width: auto;
        max-width: 50%;
        padding-left: 1;
        text-wrap: nowrap;
        text-overflow: ellipsis;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._known: tuple[str, JSONObject, bool] = ("", {}, False)

    def compose(self) -> ComposeResult:
        yield _ScenarioName(id="scenario")
        yield Steady(id="serves")
        yield Steady(id="learns")

    def show(self, scenario: str, status: JSONObject, lost: bool) -> None:
        """`status`: the last answer of `/reef/status`; empty before there is one."""
        self._known = scenario, status, lost
        mine = next((item for item in output.rows(status, "scenarios") if item.get("name") == scenario), None)
        slim = self.app.size.width < _SLIM_BELOW
        ours = ("≋ " if slim else "≋ reef  ", "bold $text-primary")
        self.query_one("#scenario", Steady).show(Content.assemble(ours, (output.printable(scenario), "bold"), (" ▾", "$text-muted")))
        self.query_one("#serves", Steady).show(_serves(mine, bool(status), _by_hand(scenario, status)))
        learns = _learns(mine, status, lost)
        self.query_one("#learns", Steady).show(learns if not slim else learns[:1] if learns.plain[:1] in _SIGNS else "")

    def on_resize(self) -> None:
        self.show(*self._known)


class _ScenarioName(Steady):
    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.app.run_action("switch_scenario")


class TabBar(Horizontal):
    """One word a tab, with its key."""

    DEFAULT_CSS = """
    TabBar {
        height: 1;
        padding: 0 1;
    }
    TabBar > _TabName {
        width: auto;
        margin-right: 1;
        padding: 0 1;
        color: $text-muted;
    }
    TabBar.-tight > _TabName {
        padding: 0;
    }
    TabBar > _TabName:hover {
        color: $foreground;
        background: $block-hover-background;
    }
    TabBar > _TabName.-active {
        color: $text-primary;
        text-style: bold underline;
    }
    """

    def __init__(self, titles: Sequence[str]) -> None:
        super().__init__()
        self._titles = titles

    def compose(self) -> ComposeResult:
        for number, title in enumerate(self._titles, 1):
            yield _TabName(number, title)

    def on_resize(self) -> None:
        """Where the names have no room side by side they move together, and then give letters away."""
        room, letters = self.content_size.width, sum(map(len, self._titles))
        self.set_class(letters + _AIRY_TAB * len(self._titles) > room, "-tight")
        short = letters + _TIGHT_TAB * len(self._titles) > room + 1
        each = max(1, (room + 1) // len(self._titles) - _TIGHT_TAB)
        for tab in self.query(_TabName):
            tab.write(each if short else None)

    def show(self, name: str) -> None:
        for tab in self.query(_TabName):
            tab.set_class(tab.id == f"tab-{name}", "-active")


class _TabName(Steady):
    def __init__(self, number: int, title: str) -> None:
        self._number, self._title, self._tab = number, title, title.lower()
        super().__init__(f"{number} {title}", id=f"tab-{self._tab}")

    def write(self, letters: int | None) -> None:
        self.show(f"{self._number} {self._title[:letters]}")

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.app.run_action(f"show({self._tab!r})")


class Banner(Steady):
    """Why there is nothing new to see, and what to type. Hidden while all is well."""

    DEFAULT_CSS = """
    Banner {
        display: none;
        padding: 0 2;
        background: $warning 20%;
        color: $foreground;
    }
    Banner.-shown {
        display: block;
    }
    """

    def __init__(self) -> None:
        super().__init__()
        self._starts = False

    def say(self, why: ReefError | None, can_start: bool) -> None:
        """`can_start`: no daemon's process runs, and there is a home to start one for: then a key or a click does it."""
        self.set_class(why is not None, "-shown")
        self._starts = can_start
        if why is not None:
            what = output.printable(why.message if can_start else f"{why.message} {why.hint}")
            start = Content.assemble("  ", ("S", "bold $text-primary"), " starts it, as reef up does.") if can_start else Content("")
            self.show(Content.assemble(("▲ ", "bold $text-warning"), what, start))

    def say_starting(self) -> None:
        self._starts = False
        self.show(Content.assemble(("◐ ", "$text-accent"), "Starting the daemon …"))

    async def on_click(self, event: Click) -> None:
        event.stop()
        if self._starts:
            await self.app.run_action("start_daemon")


def _serves(mine: JSONObject | None, asked: bool, by_hand: int) -> Content:
    if mine is None:
        return Content.styled("   no release yet: the first request makes one" if asked else "", "$text-muted")
    parts: list[Content | tuple[str, str]] = [
        Content.assemble("   ", ("● ", "$text-success"), (output.text(mine.get("release_id")), "bold"))
    ]
    if mine.get("lora"):
        parts.append((" + LoRA", "$text-muted"))
    held = mine.get("held")
    if isinstance(held, list) and held:
        parts.append((f"   ○ {len(held)} held", "$text-warning"))
    if by_hand:
        parts.append((f"   ± {by_hand} by hand", "$text-warning"))
    return Content.assemble(*parts)


def _by_hand(agent: str, status: JSONObject) -> int:
    """How many files of the agent's harness a person changed since they were laid down; an agent's scenario has its name."""
    mine = next((item for item in output.rows(status, "agents") if item.get("name") == agent), {})
    changed = mine.get("changed")
    return len(changed) if isinstance(changed, list) else 0


def _learns(mine: JSONObject | None, status: JSONObject, lost: bool) -> Content:
    if lost:
        return Content.styled("○ not connected", "$text-warning")
    if not status:
        return Content.styled("○ connecting", "$text-muted")
    run = output.part(mine or {}, "run")
    if run:
        words = f"{output.text(run.get('recipe')).rpartition(':')[2]} · {output.text(run.get('phase'), 'starting')}"
        return Content.assemble(("◐ ", "$text-accent"), (f"learning: {output.printable(words)}", "$text-accent"))
    mode = output.text(output.part(status, "learn").get("mode"))
    engine = output.part(status, "engine")
    state = output.text(engine.get("state"))
    if state != "ready":
        return Content.styled(f"▲ engine {output.printable(state)}", "$text-warning")
    return Content.styled("learning is off" if mode == "off" else f"learning: {output.printable(mode)}", "$text-muted")

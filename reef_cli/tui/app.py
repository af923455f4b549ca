"""The app: four tabs over one daemon."""

from __future__ import annotations

from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import ContentSwitcher, Footer, Static, Tab, Tabs

from daemon.errors import ReefError
from reef_cli import output
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.engine.pane import EnginePane
from reef_cli.tui.pane import Pane
from reef_cli.tui.releases.pane import ReleasesPane
from reef_cli.tui.runs.pane import RunsPane
from reef_cli.tui.sessions.pane import SessionsPane

_LOOK_S = 1.0
PANES: tuple[type[Pane], ...] = (ReleasesPane, SessionsPane, RunsPane, EnginePane)


class ReefApp(App[None]):
    """Releases, sessions, runs and engine of one scenario, live."""

    CSS_PATH = "reef.tcss"
    TITLE = "Reef"
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"show({pane.title.lower()!r})", pane.title, show=False) for number, pane in enumerate(PANES, 1)),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, daemon: Daemon | None = None, scenario: str = "default") -> None:
        super().__init__()
        self.daemon = daemon or Daemon()
        self.scenario = scenario

    def compose(self) -> ComposeResult:
        yield Static(id="top")
        yield Tabs(*(Tab(f"{number} {pane.title}", id=f"tab-{pane.title.lower()}") for number, pane in enumerate(PANES, 1)))
        yield ContentSwitcher(id="panes")
        yield Footer()

    def on_mount(self) -> None:
        self.set_interval(_LOOK_S, self.look)

    async def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        await self.show((event.tab.id or "").removeprefix("tab-"))

    def action_show(self, name: str) -> None:
        self.query_one(Tabs).active = f"tab-{name}"

    async def show(self, name: str) -> None:
        """Turn to a tab; its pane is made when it is first shown."""
        switcher = self.query_one("#panes", ContentSwitcher)
        if not switcher.query(f"#{name}"):
            pane = next(pane for pane in PANES if pane.title.lower() == name)(self.daemon, self.scenario)
            await switcher.mount(pane)
        switcher.current = name
        pane = switcher.query_one(f"#{name}", Pane)
        await self._refresh(pane, pane.kinds)

    async def look(self) -> None:
        """What changed since the last look."""
        try:
            status = await self.daemon.get("/reef/status")
        except ReefError as error:
            self.query_one("#top", Static).update(f"○ {error.message} {error.hint}")
            return
        engine = output.part(status, "engine")
        self.query_one("#top", Static).update(f"● {self.scenario} · {output.text(engine.get('model'))}")

    async def _refresh(self, pane: Pane, changes: frozenset[str]) -> None:
        try:
            await pane.refresh_from(changes)
        except ReefError as error:
            self.notify(f"{error.message} {error.hint}", severity="error")

"""The app: four tabs over one daemon. It lives by the daemon's changes; nothing is asked for again that did not change."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.actions import ActionParseResult
from textual.app import ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.events import Resize
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import ContentSwitcher
from textual.worker import WorkerFailed

from daemon.errors import EngineError, ReefError
from daemon.failure import BUG, log_bug
from reef_cli import output
from reef_cli.locations import home
from reef_cli.tui.daemon import Change, Daemon
from reef_cli.tui.help import MOVING, Help, Key
from reef_cli.tui.keys import named_keys
from reef_cli.tui.look import chosen_theme, keep_theme
from reef_cli.tui.pane import Pane, Shell
from reef_cli.tui.tabs import TABS, pane_of
from reef_cli.tui.themes import DARK, LIGHT, themes
from reef_cli.tui.top import Banner, TabBar, TopLine
from reef_cli.tui.widgets.choose import Choice, Choose
from reef_cli.tui.widgets.keys_line import KeysLine

if TYPE_CHECKING:
    from daemon.records import JSONObject

_PAUSE_S = 0.1
"""Between two looks at the daemon, however much changes."""
_AGES_S = 30.0
"""Ages ("2m ago") are shown anew so often."""
_SLIM_BELOW, _LOW_BELOW = 60, 18
_ALL = frozenset({"head", "records", "runs", "engine"})
_IN_TOP_LINE = frozenset({"head", "runs"})


class ReefApp(Shell):
    """Releases, sessions, runs and engine of one scenario, live."""

    CSS_PATH = "reef.tcss"
    TITLE = "Reef"
    PAUSE_GC_ON_SCROLL = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(number), f"show({tab.name!r})", tab.title, show=False) for number, tab in enumerate(TABS, 1)),
        Binding("s", "switch_scenario", "Scenario", show=False, tooltip="Look at another scenario"),
        Binding("t", "turn_theme", "Light or dark", show=False, tooltip="The choice is remembered"),
        Binding("S", "start_daemon", "Start the daemon", show=False, tooltip="While none runs: as `reef up`"),
        Binding("question_mark", "help", "Help", key_display="?", tooltip="The keys of this tab"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, daemon: Daemon | None = None, scenario: str = "default", theme: str = "", first: str = "releases") -> None:
        """`first`: the tab to begin with."""
        super().__init__()
        for known in themes(self.console.color_system):
            self.register_theme(known)
        self.theme = theme or chosen_theme(home())
        self.daemon = daemon or Daemon()
        self.scenario = scenario
        self.first = first
        self.bug: Exception | None = None
        """What ended the app, where it was no wish of the user."""
        self.bugs: list[Exception] = []
        """What it went on after."""
        self._status: JSONObject = {}
        self._lost: ReefError | None = None
        self._connected = False
        self._starting = False
        """A daemon is being started from here."""
        self._turned_to = ""
        self._changed: set[str] = set()
        self._look = asyncio.Event()
        self._bringing = asyncio.Lock()

    def compose(self) -> ComposeResult:
        yield TopLine()
        yield TabBar([tab.title for tab in TABS])
        yield Banner()
        yield ContentSwitcher(id="panes")
        yield KeysLine()

    def on_resize(self, event: Resize) -> None:
        """Few lines or columns: what lies beside or below the list waits until it is asked for."""
        panes = self.query_one("#panes")
        panes.set_class(event.size.width < _SLIM_BELOW, "-slim")
        panes.set_class(event.size.height < _LOW_BELOW, "-low")

    def on_mount(self) -> None:
        self._show_top()
        self.query_one(TabBar).show(TABS[0].name)
        self.watch(self.screen, "focused", self._refocus, init=False)
        self.call_after_refresh(self._begin)  # the frame is painted first

    async def _begin(self) -> None:
        gc.freeze()  # what was imported stays: to go through it again and again would be felt in scrolling
        if not self._turned_to:  # a key was quicker
            await self.show(self.first)
        self._follow()
        self._keep_up()
        self.set_interval(_AGES_S, lambda: self._note(_ALL))

    # What changes.

    @work(exit_on_error=True)
    async def _follow(self) -> None:
        async for change in self.daemon.changes():
            await self._take(change)

    async def _take(self, change: Change) -> None:
        if change.kind in ("lost", "found"):
            self._lost, self._connected = change.why, change.why is None
            await self._show_banner()
            self.query_one("#panes").set_class(change.why is not None, "-lost")
            self._show_top()
            if change.kind == "found":
                if self.daemon.other_version:
                    self.notify(f"The daemon is version {self.daemon.other_version}, this app another. To renew it: reef down && reef up")
                self._note(_ALL)
        elif change.scenario in ("", self.scenario):
            self._note(frozenset({change.kind}))

    async def _show_banner(self) -> None:
        if not self._starting:
            can_start = self._lost is not None and not await self.daemon.is_there() and await self.daemon.is_set_up()
            self.query_one(Banner).say(self._lost, can_start)

    def _note(self, kinds: frozenset[str]) -> None:
        self._changed |= kinds
        self._look.set()

    @work(exit_on_error=True)
    async def _keep_up(self) -> None:
        """Ask again for what changed, at most every `_PAUSE_S`."""
        while True:
            await self._look.wait()
            self._look.clear()
            kinds, self._changed = frozenset(self._changed), set()
            if self._connected:
                await self._refresh(kinds)
            await asyncio.sleep(_PAUSE_S)

    async def _refresh(self, kinds: frozenset[str]) -> None:
        pane = self.pane
        try:
            if kinds & _IN_TOP_LINE:
                self._status = await self.daemon.get("/reef/status")
                self._show_top()
            if pane is not None and kinds & pane.kinds:
                await self._bring(pane, kinds & pane.kinds)
        except Exception as error:  # noqa: BLE001 -- around one look: the next may do
            self.tell(error)

    async def _bring(self, pane: Pane, kinds: frozenset[str]) -> None:
        """What changed, of the scenario that is shown; one at a time, so that an older answer never comes last."""
        async with self._bringing:
            await (pane.refresh_from(kinds) if pane.scenario == self.scenario else pane.show_scenario(self.scenario))
        self.call_after_refresh(self._focus_in, pane)

    def _show_top(self) -> None:
        self.query_one(TopLine).show(self.scenario, self._status, self._lost is not None)

    # What is shown.

    @property
    def pane(self) -> Pane | None:
        """The pane that is shown."""
        name = self.query_one("#panes", ContentSwitcher).current
        return self.query_one(f"#{name}", Pane) if name else None

    async def show(self, name: str, key: str = "") -> None:
        """Turn to a tab, and there to `key`; its pane is made when it is first shown."""
        self._turned_to = name
        switcher = self.query_one("#panes", ContentSwitcher)
        if not switcher.query(f"#{name}"):
            await switcher.mount(pane_of(name)(self.daemon, self.scenario))
        if self._turned_to != name:
            return  # turned on meanwhile
        switcher.current = name
        self.query_one(TabBar).show(name)
        pane = switcher.query_one(f"#{name}", Pane)
        self._focus_in(pane)
        try:
            if self._connected:
                await self._bring(pane, pane.kinds)
                if key:
                    await pane.open(key)
        except ReefError as error:
            self.tell(error)

    def _refocus(self, focused: Widget | None) -> None:
        """What had the focus is hidden now."""
        if focused is None and (pane := self.pane) is not None:
            self.call_after_refresh(self._focus_in, pane)

    def _focus_in(self, pane: Pane) -> None:
        """The keys of a pane work while the focus is in it; what had it may be hidden by now."""
        screen = self.screen_stack[0]
        inside = [widget for widget in screen.focus_chain if pane in widget.ancestors]
        if pane.display and screen.focused not in inside:
            screen.set_focus(next(iter(inside), None), scroll_visible=False)

    @work
    async def on_pane_go(self, event: Pane.Go) -> None:
        await self.show(event.title.lower(), event.key)

    @work
    async def action_show(self, name: str) -> None:
        await self.show(name)

    @work
    async def action_switch_scenario(self) -> None:
        choices = [
            Choice(name, output.printable(name), f"{output.text(item.get('release_id'))} · {_sessions(item)}")
            for item in output.rows(self._status, "scenarios")
            if (name := output.text(item.get("name")))
        ]
        if not choices:
            self.notify("There is no scenario yet: the first request makes one.")
            return
        chosen = await self.push_screen_wait(Choose("Scenario", choices, current=self.scenario, yes="Show"))
        if chosen is not None and chosen != self.scenario:
            self.scenario = chosen
            self._show_top()
            if (pane := self.pane) is not None and self._connected:
                await self._bring(pane, pane.kinds)

    def action_turn_theme(self) -> None:
        self.theme = LIGHT if self.theme == DARK else DARK
        keep_theme(home(), self.theme)

    @work
    async def action_start_daemon(self) -> None:
        if self._lost is None:
            self.notify("The daemon runs.")
            return
        if not await self.daemon.is_set_up():
            self.notify("Set Reef up first, in a shell: reef init", severity="warning")
            return
        if self._starting:
            return
        self._starting = True
        self.query_one(Banner).say_starting()
        try:
            await self.daemon.start()  # it answers now; `_take` will hear of it
            self._starting = False
        except ReefError as error:
            self._starting = False
            await self._show_banner()
            self._say(error)

    def action_help(self) -> None:
        pane = self.pane
        if pane is None:
            return
        known = named_keys(self.screen_stack[0])
        own = [named.key for named in known if named.node is not self]
        everywhere = [named.key for named in known if named.node is self]
        tabs = Key(f"1 … {len(TABS)}", "Tabs", ", ".join(tab.title for tab in TABS))
        palette = Key("ctrl+p", "Everything", "all of this by name")
        groups = [*([(pane.title, own)] if own else []), ("Lists", MOVING), ("Everywhere", [tabs, *everywhere, palette])]
        self.push_screen(Help(pane.title, pane.about, groups))

    def action_help_quit(self) -> None:
        """For ctrl+c, which elsewhere ends a program; here it copies what is selected."""
        self.notify("q ends the app.")

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The command palette: every action of the shown pane, the tabs, then what works everywhere."""
        pane, known = self.pane, named_keys(self.screen_stack[0])
        for named in sorted(known, key=lambda named: named.node is self):
            title = named.key.name if named.node is self or pane is None else f"{pane.title}: {named.key.name}"
            yield SystemCommand(
                title, f"{named.key.sentence or 'Press'} ({named.key.key})", partial(self.run_action, named.action, named.node)
            )
        for tab in TABS:
            yield SystemCommand(f"Show {tab.name}", tab.about, partial(self.action_show, tab.name))

    # What goes wrong.

    def tell(self, error: BaseException) -> None:
        """Show what failed, and go on: a sentence for what the user can mend, a log for a bug."""
        if not self.is_running:
            return  # what still worked while the screen was taken apart
        if isinstance(error, EngineError) and not self._connected:
            return  # the banner says it
        if isinstance(error, ReefError):
            self._say(error)
        elif isinstance(error, Exception):
            log = log_bug(error, "reef tui", home())
            self.bugs.append(error)
            self.notify(
                f"This is a bug in Reef: {type(error).__name__}. The details are in {log}.", severity="error", markup=False, timeout=20
            )

    def _say(self, error: ReefError) -> None:
        self.notify(output.printable(f"{error.message} {error.hint}"), severity="error", markup=False)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:  # noqa: BLE001 -- around a key or a click of a person: the app goes on
            self.tell(error)
            return True

    def _handle_exception(self, error: Exception) -> None:
        """What Textual cannot go on after ends the app, and the command line says where the log is. A failed worker is no such thing."""
        if isinstance(error, WorkerFailed):
            self.tell(error.error)
            return
        self.bug = error
        if self.is_headless:
            super()._handle_exception(error)
        else:
            self.exit(return_code=BUG)


def _sessions(scenario: JSONObject) -> str:
    count = scenario.get("sessions")
    return "1 session" if count == 1 else f"{output.count(count)} sessions"

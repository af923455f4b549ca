"""The tab `Sessions`: a list, and beside it (on a narrow screen instead of it) what was said in one of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize

from daemon.errors import NotFound
from reef_cli import output
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.pane import Pane
from reef_cli.tui.sessions import doing
from reef_cli.tui.sessions.blocks import Block, Rule
from reef_cli.tui.sessions.conversation import Conversation
from reef_cli.tui.sessions.listing import COLUMNS, SessionList, has_changed, heading, id_of, row_of
from reef_cli.tui.widgets.empty import Empty
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.widgets.find import NOTHING_FOUND, Find
from reef_cli.tui.widgets.rows import Rows
from reef_cli.tui.widgets.steady import Steady
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

_SIDE_BY_SIDE = 110  # cells
_LIST_S = 1.0  # between two looks at which sessions are being answered, however busy the engine is
_LOOK_S = 0.12  # on a session before it is read: a person who moves on does not wait for each


class SessionsPane(Pane):
    title: ClassVar[str] = "Sessions"
    kinds: ClassVar[frozenset[str]] = frozenset({"records", "engine"})
    about: ClassVar[str] = (
        "What was asked and answered, session by session, newest first: ● is being answered now, ○ is under way and keeps its release. "
        "Each turn shows what it adds, the release that answered, and what its next turn and your reports say of it."
    )
    DEFAULT_CSS = """
    SessionsPane #sides { height: 1fr; }
    SessionsPane #list { width: 2fr; padding: 0; }
    SessionsPane #reading { width: 3fr; padding: 0; }
    SessionsPane #heading { height: 2; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    SessionsPane Empty { display: none; }
    SessionsPane.-narrow #list { width: 1fr; }
    SessionsPane.-narrow #reading { display: none; width: 1fr; }
    SessionsPane.-narrow.-reading #list { display: none; }
    SessionsPane.-narrow.-reading #reading { display: block; }
    SessionsPane.-empty #sides { display: none; }
    SessionsPane.-empty Empty { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "find", "Find", key_display="/", tooltip='Sessions that hold words or a "phrase"'),
        Binding("escape", "back", "Back", tooltip="To the list"),
        Binding("escape", "all", "All", tooltip="Show all again after finding some"),
        Binding("g", "judge(1)", "Good", tooltip="The selected reply; in the list the whole session. With a note, if you like"),
        Binding("b", "judge(-1)", "Bad", tooltip="The selected reply; in the list the whole session. With a note, if you like"),
        Binding("G", "judge_all(1)", "All good", show=False, tooltip="Every reply of the session without a score of its own"),
        Binding("B", "judge_all(-1)", "All bad", show=False, tooltip="Every reply of the session without a score of its own"),
        Binding("z", "unfold_all", "Unfold", show=False, tooltip="Unfold all that was read of the session, or fold it again"),
        Binding("o", "release", "Release", show=False, tooltip="The release that answered"),
        Binding("x", "export", "Export", tooltip="Write the session to a file"),
        Binding("f", "forget", "Forget", tooltip="Erase the session; the releases that were trained on it are named first"),
    ]

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        super().__init__(daemon, scenario)
        self._list = SessionList(daemon, scenario)
        self._read: Conversation | None = None
        self._listed_at = 0.0

    def compose(self) -> ComposeResult:
        with Horizontal(id="sides"):
            with Vertical(id="list", classes="panel") as panel:
                panel.border_title = self.title
                yield Find('words or a "phrase"')
                yield Rows(*COLUMNS, id="session-list")
            with Vertical(id="reading", classes="panel"):
                yield Steady(id="heading")
                yield Feed(id="trajectory")
        yield Empty()

    # -- what the daemon says

    async def refresh_from(self, changes: frozenset[str]) -> None:
        now = asyncio.get_running_loop().time()
        if changes == {"engine"} and now - self._listed_at < _LIST_S:
            return
        self._listed_at = now
        read = self._read
        before = self._list.find(read.session) if read is not None else None
        await self._list.refresh()
        self._show_list()
        if read is not None and has_changed(before, self._list.find(read.session)):
            await read.refresh()
            if read is self._read:
                self._show_turns(follow=True)

    async def show_scenario(self, scenario: str) -> None:
        self.scenario = scenario
        self._list, self._read = SessionList(self.daemon, scenario), None
        self.query_one(Find).value = ""
        self._show_turns()
        self.remove_class("-reading")
        await self.refresh_from(self.kinds)

    async def open(self, key: str) -> None:
        """Read the session of this id, whether the list shows it or not."""
        self.query_one(Rows).move_to(key)
        await self._open(key)
        self.action_read()

    def _show_list(self) -> None:
        rows, found = self.query_one(Rows), self._list
        sessions = found.sessions
        rows.show_lazily([id_of(session) for session in sessions], lambda index: row_of(sessions[index]))
        is_empty = found.is_read and not found.sessions and not found.words
        if is_empty:
            self.query_one(Empty).say(
                "No session yet.",
                "Point your agent or editor at Reef: reef install pi, or see the base URL with reef status.",
                "Every request is recorded here as it comes.",
            )
        self.set_class(is_empty, "-empty")
        self.query_one("#list").border_subtitle = NOTHING_FOUND if found.is_read and not found.sessions and found.words else ""
        self.refresh_bindings()

    def _show_turns(self, *, follow: bool = False) -> None:
        read, feed = self._read, self.query_one(Feed)
        if read is None:
            self.query_one("#heading", Steady).show("")
            self.query_one("#reading").border_title = ""
            feed.show([])
            return
        listed = self._list.find(read.session)
        title, facts = heading({**read.summary, **(listed or {})}, read.all)
        self.query_one("#heading", Steady).show(
            Content.assemble(Content.styled(title, "bold").truncate(200), "\n", Content.styled(facts, "$text-muted"))
        )
        self.query_one("#reading").border_title = Content(cut(read.session, 60)).markup
        feed.show(read.rows(), follow=follow)

    async def _open(self, session: str) -> None:
        listed = self._list.find(session)
        read = Conversation(self.daemon, self.scenario, session)
        at_end = bool(listed is not None and listed.get("live"))
        try:
            await read.read(at_end=at_end)
        except NotFound:
            if listed is None:
                raise
            await self._list.refresh()  # forgotten meanwhile
            self._show_list()
            return
        self._read = read
        self._show_turns()
        feed = self.query_one(Feed)
        feed.call_after_refresh(feed.to_end if at_end else feed.to_start)

    @work(exclusive=True, group="open")
    async def _look_at(self, session: str, *, then_read: bool = False) -> None:
        if self._read is None or self._read.session != session:
            await self._open(session)
        if then_read:
            self.action_read()

    # -- keys and mouse

    @on(Rows.Moved, "#session-list")
    def _moved(self, event: Rows.Moved) -> None:
        if not self.has_class("-narrow"):
            key = event.key
            self.set_timer(_LOOK_S, lambda: self._look_at(key) if self.query_one(Rows).cursor_key == key else None)

    @on(Rows.Chosen, "#session-list")
    def _chosen(self, event: Rows.Chosen) -> None:
        self._look_at(event.key, then_read=True)

    @on(Rows.NearEnd, "#session-list")
    @work(exclusive=True, group="page")
    async def _page(self) -> None:
        if await self._list.more():
            self._show_list()

    @on(Feed.NearEnd, "#trajectory")
    @work(exclusive=True, group="turns")
    async def _turns(self, event: Feed.NearEnd) -> None:
        read = self._read
        if read is not None and await read.more(top=event.top) and read is self._read:
            self._show_turns()

    @on(Feed.Chosen, "#trajectory")
    def _unfold(self, event: Feed.Chosen) -> None:
        if self._read is not None:
            self._read.turn_folds({event.key})
            self._show_turns()

    @on(Find.Changed)
    @work(exclusive=True, group="find")
    async def _find(self, event: Find.Changed) -> None:
        found = SessionList(self.daemon, self.scenario, event.text)
        await found.refresh()
        self._list = found
        self._show_list()

    @on(Find.Left)
    def _found(self) -> None:
        self.screen.set_focus(self.query_one(Rows))

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < _SIDE_BY_SIDE, "-narrow")
        if not self.has_class("-narrow") and self._read is None and (key := self.query_one(Rows).cursor_key):
            self._look_at(key)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("back", "all"):
            is_reading = self.has_class("-reading")
            return is_reading if action == "back" else bool(self._list.words) and not is_reading
        return not (action in ("judge", "judge_all", "export", "forget", "release", "unfold_all") and not self._list.sessions)

    def action_find(self) -> None:
        self.remove_class("-reading")
        self.query_one(Find).open()

    def action_read(self) -> None:
        """To the trajectory."""
        self.add_class("-reading")
        self.screen.set_focus(self.query_one(Feed))
        self.refresh_bindings()

    def action_back(self) -> None:
        self.remove_class("-reading")
        self.screen.set_focus(self.query_one(Rows))
        self.refresh_bindings()

    def action_all(self) -> None:
        self.query_one(Find).action_close()

    def action_unfold_all(self) -> None:
        if (read := self._read) is not None:
            read.turn_folds({row.key for row in read.rows() if isinstance(row, Block) and row.selectable})
            self._show_turns()

    def action_release(self) -> None:
        """The selected turn's; in the list the session's last one."""
        turn, session = self._turn(), self._session()
        releases = session.get("releases") if session is not None else None
        name = output.text(turn.get("release_id"), "") if turn is not None else ""
        if not name and isinstance(releases, list) and releases:
            name = output.text(releases[-1])
        if name:
            self.post_message(self.Go("Releases", name))

    @work
    async def action_judge(self, score: int) -> None:
        await self._judge(self._turn(), float(score))

    @work
    async def action_judge_all(self, score: int) -> None:
        await self._judge(None, float(score))

    async def _judge(self, turn: JSONObject | None, score: float) -> None:
        session, read = self._session(), self._read
        if session is None or not await doing.judge(self.app, self.daemon, self.scenario, session, turn, score):
            return
        if read is None or read is not self._read:
            return
        place = next((place for place, one in enumerate(read.turns, read.first) if turn is not None and one is turn), None)
        await (read.refresh() if place is None else read.refresh_turn(place))
        self._show_turns(follow=True)

    @work
    async def action_export(self) -> None:
        if (session := self._session()) is not None:
            await doing.export(self.app, self.daemon, self.scenario, output.text(session.get("id")))

    @work
    async def action_forget(self) -> None:
        session = self._session()
        if session is None or not await doing.forget(self.app, self.daemon, self.scenario, output.text(session.get("id"))):
            return
        self._list = SessionList(self.daemon, self.scenario, self._list.words)
        self._read = None
        self._show_turns()
        self.remove_class("-reading")
        self.screen.set_focus(self.query_one(Rows))
        await self.refresh_from(self.kinds)

    def _session(self) -> JSONObject | None:
        """The one that is meant: that which is read, else the list's."""
        if self._read is not None and self.query_one(Feed).has_focus:
            return {**self._read.summary, "id": self._read.session}
        key = self.query_one(Rows).cursor_key
        return self._list.find(key) if key is not None else None

    def _turn(self) -> JSONObject | None:
        """The selected one, where the trajectory has the focus."""
        read, feed = self._read, self.query_one(Feed)
        if read is None or not feed.has_focus:
            return None
        row = feed.row(feed.selected)
        return read.turn(row.turn) if isinstance(row, Block | Rule) else None

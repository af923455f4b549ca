"""The tab `Releases`: the chain, what each release changed and whether it was better, and the way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.events import Resize
from textual.timer import Timer

from daemon.errors import Conflict
from reef_cli import output
from reef_cli.client import NeedsYes, scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.pane import Pane
from reef_cli.tui.releases.chain import Chain
from reef_cli.tui.releases.compare import CompareView
from reef_cli.tui.releases.consent import AskConsent
from reef_cli.tui.releases.details import ReleaseDetails
from reef_cli.tui.releases.moves import Move, Moves
from reef_cli.tui.releases.promoting import follow
from reef_cli.tui.releases.release import Release, State, read
from reef_cli.tui.releases.rows import rows
from reef_cli.tui.releases.why import WhyFound
from reef_cli.tui.widgets.ask import Ask
from reef_cli.tui.widgets.confirm import Confirm
from reef_cli.tui.widgets.empty import Empty
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.widgets.find import NOTHING_FOUND, Find
from reef_cli.tui.widgets.steady import Steady

if TYPE_CHECKING:
    from daemon.records import JSONObject

_NARROW_BELOW = 100
_RESTS_S = 0.08
_WITHOUT_RELEASE = frozenset({"find", "all", "close", "help", "quit"})
_HEAD_MOVES = ("rollback", "undo", "promote", "dismiss")


class ReleasesPane(Pane):
    title: ClassVar[str] = "Releases"
    kinds: ClassVar[frozenset[str]] = frozenset({"head"})
    about: ClassVar[str] = (
        "Each line is a release, newest first. ● serves now, • served before, ○ is held, × was rejected, ↑ was promoted, ◆ is pinned."
        " The bar has a cell for each held-out task that became better (━) or worse (╍), ten at most."
        " A marks the release that a comparison starts from."
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "all", "All", tooltip="Show all again after finding some."),
        Binding("m,space", "mark", "Mark", key_display="m", tooltip="Start a comparison from this release."),
        Binding("c", "compare", "Compare", tooltip="With the marked release; without one, with what serves."),
        Binding("r", "rollback", "Roll back", tooltip="Let this release's content serve again, as a new release."),
        Binding("p", "promote", "Promote", tooltip="Let this held release serve."),
        Binding("x", "dismiss", "Dismiss", tooltip="Let this held release go for good."),
        Binding("u", "undo", "Undo", tooltip="Take back the last change of what serves."),
        Binding("i", "pin", "Pin", tooltip="Keep this release whole, or let it go."),
        Binding("w", "why", "Why", tooltip="Which release and sessions brought a line."),
        Binding("e", "explain", "Explain", tooltip="Write one file about this release that can be shown to others."),
        Binding("slash", "find", "Find", key_display="/", tooltip="Narrow the list: words, states such as held or pinned, recipes."),
    ]
    DEFAULT_CSS = """
    ReleasesPane {
        & #chain { height: 1fr; layout: horizontal; }
        & #chain-list { width: 5fr; }
        & ReleaseDetails { width: 4fr; }
        & #following { height: 1; padding: 0 1; background: $panel; display: none; }
        & Empty, & CompareView { display: none; }
        &.-narrow #chain { layout: vertical; }
        &.-narrow #chain-list { width: 1fr; height: 11fr; }
        &.-narrow ReleaseDetails { width: 1fr; height: 8fr; }
        &.-narrow.-open #chain-list { display: none; }
        &.-comparing #chain { display: none; }
        &.-comparing CompareView { display: block; }
        &.-empty #chain { display: none; }
        &.-empty Empty { display: block; }
    }
    """

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        super().__init__(daemon, scenario)
        self._chain = Chain(daemon, scenario)
        self._marked = ""
        self._words: list[str] = []
        self._rest: Timer | None = None
        self._offered: list[bool] = []

    def compose(self) -> ComposeResult:
        with Container(id="chain"):
            with Vertical(id="chain-list", classes="panel") as panel:
                panel.border_title = self.title
                yield Feed(id="releases-feed")
                yield Find("words, held, rejected, pinned, a recipe …")
            yield ReleaseDetails()
        yield Empty()
        yield Steady(id="following")

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < _NARROW_BELOW, "-narrow")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A comparison has keys of its own; and nothing is moved while the daemon is lost."""
        if action == "all":
            return bool(self._words)
        lost = self.parent is not None and self.parent.has_class("-lost")
        return not (self.has_class("-comparing") or (lost and action in _HEAD_MOVES))

    def offers(self, action: str) -> bool:
        release, head = self.selected, self._chain.head
        if release is None:
            return action in _WITHOUT_RELEASE
        if action == "rollback":
            return release.published and not release.serves
        if action in ("promote", "dismiss"):
            return release.state is State.HELD
        if action == "pin":
            return release.state is not State.HELD
        if action == "undo":
            return head is not None and bool(head.parent) and release.state is not State.HELD
        return True

    # -- what is shown

    async def refresh_from(self, changes: frozenset[str]) -> None:
        await self._chain.refresh()
        self._show()
        if self.app.focused is None and self.display:
            self.query_one(Feed).focus()

    async def show_scenario(self, scenario: str) -> None:
        self._chain, self._marked = Chain(self.daemon, scenario), ""
        self.remove_class("-comparing", "-open")
        await super().show_scenario(scenario)

    async def open(self, key: str) -> None:
        """Put the cursor on a release, however old."""
        self.remove_class("-comparing")
        self.query_one(Find).value = ""
        self._words = []
        while self._chain.find(key) is None and await self._chain.load_more():
            pass
        self._show()
        self.query_one(Feed).select(key)

    @property
    def selected(self) -> Release | None:
        return self._chain.find(self.query_one(Feed).selected)

    def _show(self) -> None:
        chain = self._chain
        shown = [release for release in chain.releases if release.matches(self._words)] if self._words else chain.releases
        feed = self.query_one(Feed)
        at_top = feed.scroll_offset.y == 0
        feed.show(rows(shown, self._marked, chain.complete))
        self.query_one("#chain-list").border_subtitle = NOTHING_FOUND if self._words and chain.complete and not shown else ""
        if at_top:  # what is new is to be seen
            feed.scroll_to(y=0, animate=False, force=True)
            feed.select(feed.selected)
        self.set_class(not chain.releases, "-empty")
        if not chain.releases:
            self.query_one(Empty).say(
                f"'{self.scenario}' has no release yet.", "The first request to it makes one: point an agent at this daemon."
            )
        self._show_details()

    def _show_details(self) -> None:
        release = self.selected
        self.query_one(ReleaseDetails).show(release)
        offered = [self.offers(action) for action in _HEAD_MOVES]
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()
        if release is not None:
            self._load_details(release.id)

    @work(exclusive=True, group="details")
    async def _load_details(self, release_id: str) -> None:
        details = self.query_one(ReleaseDetails)
        known = await self.daemon.get(scenario_path(self.scenario, "releases", release_id))
        release = read(known)
        changed = self._chain.update(release)
        details.show(release, known)
        if changed:
            self._show()

    @on(Feed.Moved)
    def _moved(self) -> None:
        """The details follow when the cursor rests: while a key is held down, only the list is painted."""
        if self._rest is not None:
            self._rest.stop()
        self._rest = self.set_timer(_RESTS_S, self._show_details)

    @on(Feed.Chosen)
    def _chosen(self) -> None:
        if self.has_class("-narrow"):
            self.add_class("-open")
            self.query_one(ReleaseDetails).focus()

    @on(ReleaseDetails.Closed)
    def _details_left(self) -> None:
        self.remove_class("-open")
        self.query_one(Feed).focus()

    @on(Feed.NearEnd)
    def _near_end(self, event: Feed.NearEnd) -> None:
        if not event.top and not self._chain.complete:
            self._load_more()

    @work(group="pages")
    async def _load_more(self) -> None:
        if await self._chain.load_more():
            self._show()

    # -- finding

    def action_find(self) -> None:
        self.query_one(Find).open()

    def action_all(self) -> None:
        self.query_one(Find).action_close()

    @on(Find.Changed)
    def _narrow(self, event: Find.Changed) -> None:
        self._words = event.text.casefold().split()
        self._show()
        self.refresh_bindings()
        if self._words:
            self._load_all()

    @on(Find.Left)
    def _find_left(self) -> None:
        self.query_one(Feed).focus()

    @work(exclusive=True, group="finding")
    async def _load_all(self) -> None:
        """What is looked for may be older than what is loaded."""
        while self._words and await self._chain.load_more():
            self._show()

    # -- comparing

    def action_mark(self) -> None:
        release = self.selected
        if release is not None:
            self._marked = "" if self._marked == release.id else release.id
            self._show()

    def action_compare(self) -> None:
        release, head = self.selected, self._chain.head
        if release is None or head is None:
            return
        other = self._marked or (release.parent if release.serves else head.id)
        if not other or other == release.id:
            self.notify("There is nothing to compare it with.", severity="warning")
            return
        pair = (other, release.id)
        known = self._chain.find(other)
        if not self._marked and known is not None and known.number > release.number:
            pair = (release.id, other)
        self._compare(*pair, replies=False)

    @on(CompareView.Wanted)
    def _wanted(self, event: CompareView.Wanted) -> None:
        self._compare(event.before, event.after, replies=event.replies)

    @work(exclusive=True, group="compare")
    async def _compare(self, before: str, after: str, *, replies: bool) -> None:
        path = scenario_path(self.scenario, "releases", before, "diff", after)
        diff = await self.daemon.get(path, {"replies": 1 if replies else None})
        if not self.query(CompareView):
            await self.mount(CompareView(), before="#following")
        view = self.query_one(CompareView)
        self.add_class("-comparing")
        view.show(before, after, diff, replies=replies)
        view.focus()
        self.refresh_bindings()

    @on(CompareView.Left)
    def _compare_left(self) -> None:
        self.remove_class("-comparing")
        self.query_one(Feed).focus()
        self.refresh_bindings()

    # -- moving the head, and pins

    def action_rollback(self) -> None:
        if (release := self.selected) is not None:
            self._move(lambda moves: moves.rollback(release))

    def action_promote(self) -> None:
        if (release := self.selected) is not None:
            self._move(lambda moves: moves.promote(self._chain.find(release.id) or release))

    def action_dismiss(self) -> None:
        if (release := self.selected) is not None:
            self._move(lambda moves: moves.dismiss(release))

    def action_undo(self) -> None:
        self._move(lambda moves: moves.undo())

    def action_pin(self) -> None:
        if (release := self.selected) is not None:
            self._move(lambda moves: moves.pin(release))

    @work(exclusive=True, group="move")
    async def _move(self, plan: Callable[[Moves], Awaitable[Move]]) -> None:
        """Name the effect, ask, do it; where another head stands by now, say which and ask again."""
        moves, news = Moves(self.daemon, self.scenario, self._chain), list[str]()
        while True:
            move = await plan(moves)
            move = replace(move, effects=[*news, *move.effects])
            if not await self.app.push_screen_wait(Confirm(move.title, move.effects, yes=move.yes, danger=move.is_final)):
                return
            try:
                answer = await self._asked(moves, move)
            except Conflict as error:
                await self._reload()
                head = self._chain.head
                if not move.head or head is None or head.id == move.head:
                    words = output.printable_lines(f"{error.message} {error.hint}")  # conflicting files stand on lines of their own
                    self.notify(words, title=move.title, severity="error", markup=False, timeout=20)
                    return
                news = [f"{head.id} serves now; you saw {move.head}. Nothing was changed yet."]
                continue
            if answer is None:
                return
            await self._reload()
            run = output.part(answer, "run")
            if run:
                self._follow(move, output.text(run.get("run_id")))
            elif move.head:
                made = output.text(answer.get("release_id"))
                self.notify(f"{made} serves now.", title=move.title, markup=False)
                self.query_one(Feed).select(made)
            elif move.done:
                self.notify(move.done, markup=False)
            return

    async def _asked(self, moves: Moves, move: Move) -> JSONObject | None:
        """Do it, after a yes to what the guard finds in it; None where there was none."""
        try:
            return await moves.ask(move)
        except NeedsYes as error:
            yes = await self.app.push_screen_wait(AskConsent(move.title, error.shown))
            return await moves.ask(replace(move, body={**move.body, "confirmed": [*yes]})) if yes else None

    async def _reload(self) -> None:
        await self._chain.refresh()
        self._show()

    @work(group="follow")
    async def _follow(self, move: Move, run_id: str) -> None:
        """Show the evaluation of an aged candidate until it is decided."""
        shown = self.query_one("#following", Steady)
        shown.display = True
        words = ""
        try:
            async for words in follow(self.daemon, self.scenario, run_id):
                shown.show(f"{move.title}: {words}")
        finally:
            shown.display = False
        self.notify(words, title=move.title, markup=False, timeout=12)
        await self._reload()

    # -- asking why, and showing others

    @work(exclusive=True, group="why")
    async def action_why(self) -> None:
        text = await self.app.push_screen_wait(Ask("Why", "The text of a rule or any other line, or lora:", yes="Find"))
        if text is None or not text.strip():
            return
        found = await self.daemon.get(scenario_path(self.scenario, "why"), {"text": text.strip()})
        release_id = await self.app.push_screen_wait(WhyFound(found))
        if release_id is not None:
            await self.open(release_id)

    @work(exclusive=True, group="explain")
    async def action_explain(self) -> None:
        release = self.selected
        if release is None:
            return
        from reef_cli.explaining import explain

        path = await self.daemon.call(lambda client: explain.write(client, self.scenario, release.id, "html", None, with_sessions=False))
        self.notify(f"Written: {path}. Texts of sessions are left out.", title=f"Explain {release.id}", markup=False, timeout=12)

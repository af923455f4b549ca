"""The tab `Runs`: what learns now, step by step, and what came of the runs before it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.events import Resize

from daemon.errors import EngineError
from reef_cli import output
from reef_cli.client import scenario_path
from reef_cli.tui.daemon import Daemon
from reef_cli.tui.pane import Pane
from reef_cli.tui.runs import view, words
from reef_cli.tui.runs.listing import COLUMNS, STYLES, RunList, row_of
from reef_cli.tui.runs.start import StartRun
from reef_cli.tui.runs.story import Story
from reef_cli.tui.widgets.choose import Choice
from reef_cli.tui.widgets.confirm import Confirm
from reef_cli.tui.widgets.empty import Empty
from reef_cli.tui.widgets.feed import Feed
from reef_cli.tui.widgets.rows import Rows
from reef_cli.tui.widgets.steady import Steady

if TYPE_CHECKING:
    from daemon.records import JSONObject

_SIDE_BY_SIDE = 110  # cells
_LOOK_S = 0.12  # on a run before its events are asked for: a person who moves on does not wait for each
_DRAW_S = 0.05  # between two pictures of a run, however fast it tells
_LIST_S = 1.0  # between two readings of the list while a run tells: its own events say more
_CLOCK_S = 1.0
_PAUSES_S = (0.25, 0.5, 1.0, 2.0)
_REMEMBERED = 16


class RunsPane(Pane):
    title: ClassVar[str] = "Runs"
    kinds: ClassVar[frozenset[str]] = frozenset({"runs", "head"})
    about: ClassVar[str] = (
        "What learns now or did before: the phases of a run, its loss, the tasks that it was judged by (+ won, − lost, = neither), "
        "the decision with its reason. A run ends ↑ promoted, ○ held for you to decide, × rejected, or with nothing to publish."
    )
    DEFAULT_CSS = """
    RunsPane #sides { height: 1fr; }
    RunsPane #list { width: 2fr; padding: 0; }
    RunsPane #reading { width: 3fr; padding: 0; }
    RunsPane #heading { height: 2; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    RunsPane Feed { margin: 1 0 0 0; }
    RunsPane Empty { display: none; }
    RunsPane.-narrow #sides { layout: vertical; }
    RunsPane.-narrow #list { width: 1fr; height: 6; }
    RunsPane.-narrow #reading { width: 1fr; height: 1fr; }
    RunsPane.-narrow Feed { margin: 0; }
    RunsPane.-narrow.-reading #list { display: none; }
    RunsPane.-empty #sides { display: none; }
    RunsPane.-empty Empty { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "evolve", "Evolve", tooltip="Start a run of a recipe"),
        Binding("c", "cancel", "Cancel run", tooltip="End the run that is under way; nothing is published"),
        Binding("o", "release", "Release", tooltip="The release that it made"),
        Binding("escape", "back", "Back", tooltip="To the list"),
    ]

    def __init__(self, daemon: Daemon, scenario: str) -> None:
        super().__init__(daemon, scenario)
        self._list = RunList(daemon, scenario)
        self._stories: dict[str, Story] = {}
        self._shown = ""
        """The id of the run whose details are shown."""
        self._is_past = False
        """It had ended when it was turned to."""
        self._opened: set[str] = set()
        self._is_drawn = True
        self._listed_at = 0.0

    def compose(self) -> ComposeResult:
        with Horizontal(id="sides"):
            with Vertical(id="list", classes="panel") as panel:
                panel.border_title = self.title
                yield Rows(*COLUMNS, id="run-list")
            with Vertical(id="reading", classes="panel"):
                yield Steady(id="heading")
                yield Feed(id="run-details")
        yield Empty()

    def on_mount(self) -> None:
        self.set_interval(_DRAW_S, self._draw_if_told)
        self.set_interval(_CLOCK_S, self._tick)

    # -- what the daemon says

    async def refresh_from(self, changes: frozenset[str]) -> None:
        now = asyncio.get_running_loop().time()
        if changes == {"runs"} and self._list.running is not None and self._is_followed and now - self._listed_at < _LIST_S:
            return
        self._listed_at = now
        before = self._list.running
        await self._list.refresh()
        running = self._list.running
        self._show_list()
        if running is not None and (before is None or before.get("run_id") != running.get("run_id")):
            self.query_one(Rows).move_to(output.text(running.get("run_id")))  # what learns now is what this tab is about
        if not self._shown and (key := self.query_one(Rows).cursor_key):
            self._follow(key)
        self._draw()

    async def show_scenario(self, scenario: str) -> None:
        self.scenario = scenario
        self._list, self._stories, self._shown = RunList(self.daemon, scenario), {}, ""
        self.workers.cancel_group(self, "follow")
        self.remove_class("-reading")
        await self.refresh_from(self.kinds)

    async def open(self, key: str) -> None:
        while self._list.find(key) is None and await self._list.more():
            pass
        self._show_list()
        self.query_one(Rows).move_to(key)
        self._follow(key)
        self.action_read()

    @property
    def _is_followed(self) -> bool:
        running = self._list.running
        return running is not None and running.get("run_id") == self._shown

    @work(exclusive=True, group="follow")
    async def _follow(self, run_id: str) -> None:
        """Take a run's events as they come, through lost connections, until it has ended."""
        run = self._list.find(run_id)
        self._shown, self._opened, self._is_past = run_id, set(), bool(run is not None and run.get("ended_at"))
        story = self._remember(run_id)
        self.query_one(Feed).show([])
        self._draw()
        self.refresh_bindings()
        failures = 0
        while True:
            with contextlib.suppress(EngineError):
                async for event in self.daemon.events(scenario_path(self.scenario, "runs", run_id, "events"), story.cursor):
                    story.take(event)
                    self._is_drawn, failures = False, 0
                await self._list.refresh()
                self._show_list()
                self._draw()
                run = self._list.find(run_id)
                if story.ended or run is None or run.get("ended_at"):  # else the daemon stopped, and will be back
                    return
            await asyncio.sleep(_PAUSES_S[min(failures, len(_PAUSES_S) - 1)])
            failures += 1

    def _remember(self, run_id: str) -> Story:
        """What the run told; that of the latest runs that were looked at is kept, for it does not change any more."""
        story = self._stories.pop(run_id, None) or Story()
        self._stories[run_id] = story
        while len(self._stories) > _REMEMBERED:
            del self._stories[next(iter(self._stories))]
        return story

    def _tick(self) -> None:
        if self._is_followed and self.is_on_screen:
            self._draw()

    def _draw_if_told(self) -> None:
        if not self._is_drawn:
            self._draw()

    def _draw(self) -> None:
        self._is_drawn = True
        run, story = self._list.find(self._shown), self._stories.get(self._shown)
        heading, feed = self.query_one("#heading", Steady), self.query_one(Feed)
        if run is None or story is None:
            heading.show("")
            self.query_one("#reading").border_title = ""
            feed.show([])
            return
        self.query_one("#reading").border_title = output.printable(self._shown)
        first, role, facts = view.heading(run)
        heading.show(Content.assemble((first, f"bold {STYLES.get(role, '')}".strip()), "\n", (facts, "$text-muted")))
        feed.show(view.rows_of(run, story, self._opened, decision_first=self._is_past), follow=not self._is_past)

    def _show_list(self) -> None:
        found = self._list
        self.query_one(Rows).show([row_of(run) for run in found.runs])
        is_empty = found.is_read and not found.runs
        if is_empty:
            self.query_one(Empty).say(
                "Nothing was learned here yet.",
                "Say of a few replies whether they were good: g and b in Sessions.",
                "Then start a run: press e. With learn.mode auto it starts by itself when nobody is served.",
            )
        self.set_class(is_empty, "-empty")
        self.refresh_bindings()

    # -- keys and mouse

    @on(Rows.Moved, "#run-list")
    def _moved(self, event: Rows.Moved) -> None:
        key = event.key
        if key != self._shown:
            self.set_timer(_LOOK_S, lambda: self._follow(key) if self.query_one(Rows).cursor_key == key != self._shown else None)

    @on(Rows.Chosen, "#run-list")
    def _chosen(self, event: Rows.Chosen) -> None:
        if event.key != self._shown:
            self._follow(event.key)
        self.action_read()

    @on(Rows.NearEnd, "#run-list")
    @work(exclusive=True, group="page")
    async def _page(self) -> None:
        if await self._list.more():
            self._show_list()

    @on(Feed.Chosen, "#run-details")
    def _unfold(self, event: Feed.Chosen) -> None:
        if event.key == view.RELEASE:
            self.action_release()
            return
        self._opened ^= {event.key}
        self._draw()

    def on_resize(self, event: Resize) -> None:
        self.set_class(event.size.width < _SIDE_BY_SIDE, "-narrow")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "back":
            return self.has_class("-reading")
        if action == "cancel":
            return self._list.running is not None
        if action == "release":
            run = self._list.find(self._shown)
            return run is not None and bool(run.get("release_id"))
        return True

    def action_read(self) -> None:
        """To the details."""
        self.add_class("-reading")
        self.screen.set_focus(self.query_one(Feed))
        self.refresh_bindings()

    def action_back(self) -> None:
        self.remove_class("-reading")
        self.screen.set_focus(self.query_one(Rows))
        self.refresh_bindings()

    def action_release(self) -> None:
        run = self._list.find(self._shown)
        if run is not None and (release := output.text(run.get("release_id"), "")):
            self.post_message(self.Go("Releases", release))

    @work
    async def action_evolve(self) -> None:
        known, status = await asyncio.gather(self.daemon.get("/reef/recipes"), self.daemon.get("/reef/status"))
        configured = next(
            (output.text(one.get("recipe"), "") for one in output.rows(status, "scenarios") if one.get("name") == self.scenario), ""
        )
        recipes = output.rows(known, "recipes")
        current = next((output.text(one.get("name")) for one in recipes if configured in (one.get("name"), one.get("path"))), configured)
        choices = [
            Choice(
                name := output.text(one.get("name")),
                output.printable(name),
                "the configured one" if name == current else output.text(one.get("path")),
            )
            for one in recipes
        ]
        if current and all(choice.key != current for choice in choices):
            choices.insert(0, Choice(current, output.printable(current), "the configured one"))
        effect = f"It learns from {self.scenario}'s experience, is evaluated, and what is better serves from then on."
        start = await self.app.push_screen_wait(StartRun(choices, current, effect))
        if start is None:
            return
        body: JSONObject = {"dry_run": start.dry_run}
        if start.recipe != current:
            body["recipe"] = start.recipe
        run = await self.daemon.post(scenario_path(self.scenario, "runs"), body)
        await self._list.refresh()
        self._show_list()
        run_id = output.text(run.get("run_id"))
        self.query_one(Rows).move_to(run_id)
        self._follow(run_id)

    @work
    async def action_cancel(self) -> None:
        run = self._list.running
        if run is None:
            self.notify("No run is under way.")
            return
        run_id = output.text(run.get("run_id"))
        effects = [
            f"The run of {output.printable(output.text(run.get('recipe')))} ends, after {words.took(view.seconds(run))}.",
            "Nothing is published; its experience can be used again.",
        ]
        if await self.app.push_screen_wait(Confirm("Cancel this run", effects, yes="Cancel it", danger=True)):
            await self.daemon.delete(scenario_path(self.scenario, "runs", run_id))
            await self._list.refresh()
            self._show_list()
            self._draw()

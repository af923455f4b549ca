"""The comparison of two releases, in place of the list until it is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.message import Message

from reef_cli.tui.releases import comparison
from reef_cli.tui.releases.comparison import Shown
from reef_cli.tui.releases.prose import line, page
from reef_cli.tui.widgets.steady import Steady

if TYPE_CHECKING:
    from daemon.records import JSONObject

_SECTIONS = ("head", "files", "lora", "settings", "tasks")
_WORDS = {Shown.ALL: "all tasks", Shown.LOSSES: "what became worse", Shown.WINS: "what became better"}
_NARROWEST = 40


class CompareView(VerticalScroll, can_focus=True):
    """What `GET …/diff/…` answered, section by section."""

    DEFAULT_CSS = """
    CompareView {
        scrollbar-size-vertical: 1;
        scrollbar-gutter: stable;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Back", tooltip="Back to the list."),
        Binding("n", "section(1)", "Next part", tooltip="To the next of files, LoRA, settings and tasks."),
        Binding("f", "filter", "Filter tasks", tooltip="List all tasks, those that became worse, those that became better."),
        Binding("v", "replies", "Replies", tooltip="Show what was answered to each task, before and after."),
        Binding("x", "swap", "Swap", tooltip="The other way round."),
        Binding("j", "scroll_down", "Down", show=False),
        Binding("k", "scroll_up", "Up", show=False),
    ]

    class Left(Message):
        """Back to the list."""

    class Wanted(Message):
        """Another comparison is asked for."""

        def __init__(self, before: str, after: str, replies: bool) -> None:
            super().__init__()
            self.before, self.after, self.replies = before, after, replies

    def __init__(self) -> None:
        super().__init__(classes="panel")
        self.border_title = "Compare"
        self._diff: JSONObject = {}
        self._shown = Shown.ALL
        self.before = self.after = ""
        self.replies = False

    def compose(self) -> ComposeResult:
        for name in _SECTIONS:
            yield Steady(id=f"compare-{name}")

    def show(self, before: str, after: str, diff: JSONObject, *, replies: bool = False) -> None:
        """`diff`: the answer of `GET …/releases/{before}/diff/{after}`."""
        same = (before, after) == (self.before, self.after)
        self._diff, self.before, self.after, self.replies = diff, before, after, replies
        if not same:
            self.scroll_home(animate=False)
        self._draw()

    def on_resize(self) -> None:
        if self._diff:
            self._draw()

    def action_leave(self) -> None:
        self.post_message(self.Left())

    def action_filter(self) -> None:
        self._shown = self._shown.next
        self._draw()
        tasks = self.query_one("#compare-tasks", Steady)
        if tasks.shown.plain:
            self.notify(f"Tasks: {_WORDS[self._shown]}.")
            self.scroll_to_widget(tasks, top=True, animate=False)

    def action_replies(self) -> None:
        self.post_message(self.Wanted(self.before, self.after, not self.replies))

    def action_swap(self) -> None:
        self.post_message(self.Wanted(self.after, self.before, self.replies))

    def action_section(self, by: int) -> None:
        """To the next section that has something to show; from the last one to the first."""
        tops = [section.virtual_region.y for section in self.query(Steady) if section.shown.plain]
        here = self.scroll_offset.y
        below = [top for top in tops if top > here] if self.scroll_offset.y < self.max_scroll_y else []
        self.scroll_to(y=below[0] if below else 0, animate=False)

    def _draw(self) -> None:
        width = max(_NARROWEST, self.scrollable_content_region.width)
        diff = self._diff
        parts = {
            "head": comparison.head(diff),
            "files": comparison.files(diff, width),
            "lora": comparison.lora(diff, width),
            "settings": comparison.settings(diff, width),
            "tasks": comparison.tasks(diff, self._shown, width),
        }
        if not any(parts[name] for name in _SECTIONS[1:]) and diff.get("same_content") is not True:
            parts["tasks"] = [line(("Neither was evaluated, and no file, LoRA or setting differs.", "muted"))]
        for name, lines in parts.items():
            section = self.query_one(f"#compare-{name}", Steady)
            section.display = bool(lines)
            section.show(page(lines))

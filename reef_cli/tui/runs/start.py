"""Asks which recipe is to run, and whether for real."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from reef_cli.tui.widgets.choose import Choice
from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady


@dataclass(frozen=True, slots=True)
class Start:
    recipe: str
    dry_run: bool


class StartRun(Dialog[Start]):
    """A recipe of several, and `d` for a rehearsal."""

    DEFAULT_CSS = """
    StartRun OptionList {
        height: auto;
        max-height: 10;
        margin: 1 0;
        padding: 0;
        border: none;
        background: $surface;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "rehearse", "Dry run")]

    def __init__(self, choices: Sequence[Choice], current: str, effect: str) -> None:
        super().__init__("Start a run")
        self._choices = choices
        self._current = current
        self._effect = effect
        self._dry_run = False

    def content(self) -> Iterator[Widget]:
        width = max((len(choice.label) for choice in self._choices), default=0) + 2
        labels = [
            Content.assemble("● " if one.key == self._current else "  ", one.label.ljust(width), (one.note, "$text-muted"))
            for one in self._choices
        ]
        yield Steady(self._effect, id="effect")
        yield OptionList(*(Option(label, id=str(number)) for number, label in enumerate(labels)), compact=True)
        yield Pressable(self._switch(), "rehearse")

    def on_mount(self) -> None:
        keys = [choice.key for choice in self._choices]
        self.query_one(OptionList).highlighted = keys.index(self._current) if self._current in keys else 0

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable("enter Start", "submit", classes="yes")
        yield from super().buttons()

    def action_rehearse(self) -> None:
        self._dry_run = not self._dry_run
        self.query(Pressable).first(Pressable).show(self._switch())

    def action_submit(self) -> None:
        self.query_one(OptionList).action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(Start(self._choices[event.option_index].key, self._dry_run))

    def _switch(self) -> str:
        return f"d {'[x]' if self._dry_run else '[ ]'} dry run: do everything but publish"

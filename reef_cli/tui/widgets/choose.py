"""Asks for one of several."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList
from textual.widgets.option_list import Option

from reef_cli.tui.widgets.dialog import Dialog, Pressable


@dataclass(frozen=True, slots=True)
class Choice:
    """`key` is what the dialog gives back; `note` says in a few words what it is."""

    key: str
    label: str
    note: str = ""


class Choose(Dialog[str]):
    """The key of the choice taken."""

    DEFAULT_CSS = """
    Choose OptionList {
        height: auto;
        max-height: 14;
        padding: 0;
        border: none;
        background: $surface;
        scrollbar-size-vertical: 1;
    }
    Choose OptionList:focus {
        background-tint: $foreground 0%;
    }
    """

    def __init__(self, title: str, choices: Sequence[Choice], *, current: str = "", yes: str = "Choose") -> None:
        super().__init__(title)
        self._choices = choices
        self._current = current
        self._yes = yes

    def content(self) -> Iterator[Widget]:
        width = max((len(choice.label) for choice in self._choices), default=0) + 2
        yield OptionList(
            *(
                Option(
                    Content.assemble(
                        "● " if choice.key == self._current else "  ", choice.label.ljust(width), (choice.note, "$text-muted")
                    ),
                    id=str(index),  # a key may hold what an id may not
                )
                for index, choice in enumerate(self._choices)
            ),
            compact=True,
        )

    def on_mount(self) -> None:
        keys = [choice.key for choice in self._choices]
        self.query_one(OptionList).highlighted = keys.index(self._current) if self._current in keys else 0

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable(f"enter {self._yes}", "submit", classes="yes")
        yield from super().buttons()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._choices[event.option_index].key)

    def action_submit(self) -> None:
        self.query_one(OptionList).action_select()

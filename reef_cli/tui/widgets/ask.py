"""Asks for one line of text."""

from __future__ import annotations

from collections.abc import Iterator

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady


class Ask(Dialog[str]):
    """The text as it was typed, perhaps empty; None where it was left by `escape`."""

    DEFAULT_CSS = """
    Ask Input {
        height: 1;
        margin-top: 1;
        border: none;
        padding: 0 1;
        background: $panel;
    }
    """

    def __init__(self, title: str, sentence: str, *, yes: str = "Save", value: str = "", placeholder: str = "") -> None:
        super().__init__(title)
        self._sentence = sentence
        self._yes = yes
        self._value = value
        self._placeholder = placeholder

    def content(self) -> Iterator[Widget]:
        yield Steady(self._sentence)
        yield Input(self._value, placeholder=self._placeholder, compact=True)

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable(f"enter {self._yes}", "submit", classes="yes")
        yield from super().buttons()

    @on(Input.Submitted)
    def action_submit(self) -> None:
        self.dismiss(self.query_one(Input).value)

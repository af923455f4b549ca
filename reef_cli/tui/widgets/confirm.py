"""Asks before anything is changed, and names the effect."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady


class Confirm(Dialog[bool]):
    """`await app.push_screen_wait(Confirm("Roll back to r12", ["r15 will serve r12's content: …"], yes="Roll back"))`

    True for `y` or enter; None otherwise.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,enter", "agree", "Yes"),
        Binding("n", "leave", "No", show=False),
    ]

    def __init__(self, title: str, effects: Sequence[Content | str], *, yes: str, danger: bool = False) -> None:
        """
        Args:
            effects: what will be, a sentence each.
            yes: the verb, such as "Roll back".
            danger: it cannot be taken back.
        """
        super().__init__(title)
        self._effects = effects
        self._yes = yes
        self._danger = danger

    def content(self) -> Iterator[Widget]:
        yield Steady(Content("\n").join(Content(effect) if isinstance(effect, str) else effect for effect in self._effects))

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable(f"y {self._yes}", "agree", classes="danger" if self._danger else "yes")
        yield from super().buttons()

    def action_agree(self) -> None:
        self.dismiss(True)

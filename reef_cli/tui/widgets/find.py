"""The line that `/` opens: narrows a list while a person types."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.events import Key
from textual.message import Message
from textual.widgets import Input

NOTHING_FOUND = "nothing holds these words · esc shows all"


class Find(Input):
    """Hidden until `open`. `escape` empties and hides it; enter or `down` goes back to the list and keeps what is typed."""

    DEFAULT_CSS = """
    Find {
        display: none;
        height: 1;
        border: none;
        padding: 0 1;
        background: $panel;
    }
    Find.-open {
        display: block;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "close", "All")]

    class Changed(Input.Changed):
        """What is typed now; empty: everything is to be shown."""

        @property
        def text(self) -> str:
            return self.value.strip()

    class Left(Message):
        """The list is to have the focus again."""

    def __init__(self, placeholder: str) -> None:
        super().__init__(placeholder=placeholder, compact=True, select_on_focus=False)

    def open(self) -> None:
        self.add_class("-open")
        self.screen.set_focus(self)  # at once: what is typed right behind the key belongs here

    def action_close(self) -> None:
        self.value = ""
        self.remove_class("-open")
        self.post_message(self.Left())

    def on_key(self, event: Key) -> None:
        if event.key in ("enter", "down"):
            event.stop()
            event.prevent_default()
            if not self.value:
                self.remove_class("-open")
            self.post_message(self.Left())

"""What all dialogs share: a box in the middle, with its keys written out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Click
from textual.screen import ModalScreen
from textual.widget import Widget

from reef_cli.tui.widgets.steady import Steady

Answer = TypeVar("Answer")


class Pressable(Steady):
    """A word that runs an action of its dialog when it is clicked."""

    def __init__(self, label: str, action: str, classes: str = "") -> None:
        super().__init__(label, classes=classes)
        self._action = action

    async def on_click(self, event: Click) -> None:
        event.stop()
        await self.screen.run_action(self._action)


class Dialog(ModalScreen[Answer | None], Generic[Answer]):
    """Ends with an answer, or with None by `escape` or a click beside it."""

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        background: $background 60%;
    }
    Dialog > .box {
        width: 64;
        max-width: 94%;
        height: auto;
        max-height: 90%;
        padding: 1 2;
        background: $surface;
        border: round $border;
        border-title-color: $text-primary;
        border-title-style: bold;
    }
    Dialog .buttons {
        height: 1;
        margin-top: 1;
        align-horizontal: right;
    }
    Dialog Pressable {
        width: auto;
        margin-left: 3;
    }
    Dialog Pressable:hover {
        text-style: underline;
    }
    Dialog Pressable.yes {
        color: $text-primary;
        text-style: bold;
    }
    Dialog Pressable.danger {
        color: $text-error;
        text-style: bold;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Cancel")]

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def content(self) -> Iterator[Widget]:
        """What lies above the buttons."""
        raise NotImplementedError

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable("esc Cancel", "leave")

    def compose(self) -> ComposeResult:
        with Vertical(classes="box") as box:
            box.border_title = self._title
            yield from self.content()
            with Horizontal(classes="buttons"):
                yield from self.buttons()

    def on_click(self, event: Click) -> None:
        if event.widget is self:
            self.dismiss(None)

    def action_leave(self) -> None:
        self.dismiss(None)

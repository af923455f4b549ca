"""The help screen: what the tab shows, its keys, and those that work everywhere."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget

from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady


@dataclass(frozen=True, slots=True)
class Key:
    """One key: as it is written on the keyboard, its name, and what it does in a sentence (may be empty)."""

    key: str
    name: str
    sentence: str = ""


MOVING: tuple[Key, ...] = (
    Key("↑ ↓ j k", "Move", "also page up, page down, home and end"),
    Key("enter", "Open"),
    Key("tab", "Next part", "shift+tab goes back"),
)


_WIDTH = 76
_FRAME = 7  # border, padding, scrollbar


class Help(Dialog[None]):
    """Leaves by `?`, `q` or `escape`."""

    DEFAULT_CSS = """
    Help > .box {
        width: 76;
        padding: 0 2;
    }
    Help VerticalScroll {
        height: auto;
        max-height: 70vh;
        scrollbar-size-vertical: 1;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("question_mark,q", "leave", "Close", show=False)]

    def __init__(self, title: str, about: str, groups: Sequence[tuple[str, Sequence[Key]]]) -> None:
        super().__init__(title)
        self._about = about
        self._groups = groups

    def content(self) -> Iterator[Widget]:
        yield VerticalScroll(Steady(self._text(min(_WIDTH, self.app.size.width * 94 // 100) - _FRAME)))

    def buttons(self) -> Iterator[Pressable]:
        yield Pressable("esc Close", "leave")

    def _text(self, width: int) -> Content:
        """`width` cells a line: a sentence that is too long goes on below itself."""
        blocks = [Content(self._about)] if self._about else []
        keys = [key for _, group in self._groups for key in group]
        first, second = (max((len(part) for part in parts), default=0) + 2 for parts in ([k.key for k in keys], [k.name for k in keys]))
        indent = 2 + first + second
        for title, group in self._groups:
            lines = [Content.styled(title, "bold $text-primary")]
            for key in group:
                sentence = f"\n{' ' * indent}".join(textwrap.wrap(key.sentence, max(16, width - indent)))
                lines.append(Content.assemble(("  " + key.key.ljust(first), "bold"), key.name.ljust(second), (sentence, "$text-muted")))
            blocks.append(Content("\n").join(lines))
        return Content("\n\n").join(blocks)

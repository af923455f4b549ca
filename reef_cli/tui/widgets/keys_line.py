"""The last line: the keys that do something now, as many as there is room for."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.events import Resize
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from reef_cli.tui.pane import Pane
from reef_cli.tui.wrapping import cells

_STAY = ("help", "quit")
"""Whoever sees no other key must still find these."""
_AIRY, _TIGHT = 2, 1


class KeysLine(Footer):
    """As Textual's, but a key is left out where it could only say why it does nothing now, or where it would be cut.

    It works all the same, and `?` names it.
    """

    DEFAULT_CSS = """
    KeysLine {
        height: 1;
        padding: 0 1;
    }
    KeysLine FooterKey.-compact {
        margin-right: 2;
    }
    KeysLine.-tight FooterKey.-compact {
        margin-right: 1;
    }
    """

    def __init__(self) -> None:
        super().__init__(compact=True, show_command_palette=False)
        self._fitted = 0

    def compose(self) -> ComposeResult:
        room = self.app.size.width - 2
        found = [key for key in super().compose() if isinstance(key, FooterKey) and self._is_offered(key.action)]
        gap = _AIRY if _length(found, _AIRY) <= room else _TIGHT
        self.set_class(gap == _TIGHT, "-tight")
        while _length(found, gap) > room and (others := [key for key in found if key.action not in _STAY]):
            found.remove(others[-1])
        yield from found

    async def on_resize(self, event: Resize) -> None:
        if self._fitted not in (0, event.size.width):
            await self.recompose()
        self._fitted = event.size.width

    def _is_offered(self, action: str) -> bool:
        focused = self.screen.focused
        pane = next((above for above in focused.ancestors_with_self if isinstance(above, Pane)), None) if focused is not None else None
        return pane is None or pane.offers(action)


def _length(found: list[FooterKey], gap: int) -> int:
    return sum(cells(key.key_display) + 1 + cells(key.description) + gap for key in found) - gap

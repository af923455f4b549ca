"""Asks for a person's yes to what the guard found in a release: the findings, and the files that they are in, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import Resize
from textual.widget import Widget

from reef_cli.consent import Found, findings, left_out
from reef_cli.tui.releases import comparison
from reef_cli.tui.releases.prose import line, page, plural
from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

_NARROWEST = 30
_MOST = 200


class AskConsent(Dialog[list[str]]):
    """Ends with the ids of all findings, or with None. Neither enter nor the key that said yes before is a yes here."""

    DEFAULT_CSS = """
    AskConsent > .box { width: 110; height: 90%; }
    AskConsent VerticalScroll { height: 1fr; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "agree", "Accept"),
        Binding("n", "leave", "No", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self, title: str, shown: JSONObject) -> None:
        """`shown`: what the daemon answered, `findings` and `files`."""
        super().__init__(title)
        self._shown = shown
        self._found = findings(shown)

    def content(self) -> Iterator[Widget]:
        yield VerticalScroll(Steady(), can_focus=True)

    def buttons(self) -> Iterator[Pressable]:
        runs = any(one.executable for one in self._found)
        yield Pressable("a Accept, and let it run" if runs else "a Accept", "agree", classes="danger")
        yield from super().buttons()

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self.call_after_refresh(self._draw)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self._draw)

    def action_agree(self) -> None:
        self.dismiss([one.id for one in self._found])

    def action_scroll(self, by: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)

    def _draw(self) -> None:
        width = max(_NARROWEST, self.query_one(VerticalScroll).scrollable_content_region.width)
        self.query_one(Steady).show(page(write(self._shown, self._found, width)))


def write(shown: JSONObject, found: list[Found], width: int) -> list[Content]:
    programs = sum(one.executable for one in found)
    lines = [line((f"The guard found {plural(len(found), 'thing')} that you must see before it serves.", "strong"))]
    if programs:
        lines.append(line((f"{plural(programs, 'thing')} marked ▶ would run on this machine, with your rights.", "bad")))
    lines.append(Content())
    for one in found[:_MOST]:
        lines.append(
            line((f"{'▶' if one.executable else '•'} ", "bad" if one.executable else "waiting"), (cut(one.where, width - 4), "strong"))
        )
        lines.append(line((cut(f"  {one.reason}{f': {one.span}' if one.span else ''}", width), "plain")))
    if len(found) > _MOST:
        lines.append(line((f"and {len(found) - _MOST} more, in the files below", "muted")))
    lines += comparison.files({**shown, "before": shown.get("head"), "after": shown.get("release_id")}, width)
    lines += [line((cut(f"{path} is too long to be shown here: c compares the two.", width), "muted")) for path in left_out(shown)]
    return lines

"""Where a line comes from: the answer of `GET …/why`, as a dialog."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.widget import Widget

from reef_cli import output
from reef_cli.tui.releases.prose import line, page, plural
from reef_cli.tui.widgets.dialog import Dialog, Pressable
from reef_cli.tui.widgets.steady import Steady
from reef_cli.tui.wrapping import cut

if TYPE_CHECKING:
    from daemon.records import JSONObject

_WIDTH = 74
_SESSIONS = 4
_NEAREST = 5
_ROLES = {"brought": "good", "brought back": "good", "removed": "bad"}


class WhyFound(Dialog[str]):
    """Ends with the release that brought the line, or None."""

    DEFAULT_CSS = """
    WhyFound > .box { width: 82; }
    WhyFound VerticalScroll { height: auto; max-height: 16; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "go", "Show")]

    def __init__(self, found: JSONObject) -> None:
        super().__init__("Why")
        self._found = found
        self._source = source(found)

    def content(self) -> Iterator[Widget]:
        yield VerticalScroll(Steady(page(write(self._found))))

    def buttons(self) -> Iterator[Pressable]:
        if self._source:
            yield Pressable(f"enter Show {self._source}", "go", classes="yes")
        yield Pressable("esc Close", "leave")

    def action_go(self) -> None:
        self.dismiss(self._source or None)


def source(found: JSONObject) -> str:
    """The release that brought the line last."""
    brought = [item for item in output.rows(found, "releases") if output.text(item.get("event")).startswith("brought")]
    return output.printable(output.text(brought[-1].get("release_id"), "")) if brought else ""


def write(found: JSONObject) -> list[Content]:
    """Oldest first: which release brought the line, or took it away, and from which sessions."""
    lines: list[Content] = []
    match = output.text(found.get("match"))
    if match in ("none", "near"):
        lines.append(
            line(("No release holds exactly that.", "strong"), (" The nearest lines:" if output.rows(found, "nearest") else "", "plain"))
        )
        for item in output.rows(found, "nearest")[:_NEAREST]:
            place = f"{output.text(item.get('release_id'))}  {output.text(item.get('path'))}  "
            lines.append(line((cut(place, 40) + "  ", "muted"), (cut(output.text(item.get("line")), _WIDTH - len(place)), "plain")))
    elif match == "exact":
        lines.append(line(("It serves now." if found.get("serving") is True else "It does not serve now.", "strong")))
    for item in output.rows(found, "releases"):
        lines += [Content(), *_release(item)]
    return lines


def _release(item: JSONObject) -> Iterator[Content]:
    event = output.text(item.get("event"), "brought")
    number = item.get("number")
    place = f"{output.text(item.get('path'), '')}{f':{number}' if isinstance(number, int) else ''}"
    made = f"  {output.age(item.get('recorded_at'))} · {output.text(item.get('operation'))}"
    yield line(
        (cut(output.text(item.get("release_id")), 12), "strong"),
        (f" {event}", _ROLES.get(event, "plain")),
        (f" {cut(place, 40)}{made}", "muted"),
    )
    if item.get("line"):
        yield line((f"  {cut(output.text(item.get('line')), _WIDTH - 2)}", "plain"))
    if item.get("reason"):
        yield line((f"  {cut(output.text(item.get('reason')), _WIDTH - 2)}", "muted"))
    sessions = output.rows(item, "sessions")
    for session in sessions[:_SESSIONS]:
        name = output.text(session.get("title"), output.text(session.get("id")))
        count = session.get("receipts")
        yield line(
            ("  from ", "muted"),
            (cut(name, _WIDTH - 28), "plain"),
            (f"  {plural(count, 'exchange')}" if isinstance(count, int) else "", "muted"),
        )
    if len(sessions) > _SESSIONS:
        yield line((f"  and {plural(len(sessions) - _SESSIONS, 'more session')}", "muted"))

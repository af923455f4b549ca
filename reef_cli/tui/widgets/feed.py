"""A long list of rows, each of some lines: sessions, the turns of one, a run. Only what is seen is drawn, and only what changed again.

Rows are plain data that know their lines at a width. Text is never read as markup: a line is spans of text with a role each.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import ClassVar, Protocol, TypeAlias

from rich.segment import Segment
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

Span: TypeAlias = tuple[str, str]
"""Text, clean (see `wrapping.clean`), and its role: one of `ROLES`, or "" for plain text."""
Line: TypeAlias = tuple[Span, ...]

ROLES = ("dim", "strong", "accent", "good", "bad", "warn", "rule", "match")
_MARK, _MARGIN = "▌ ", 2
_NEAR = 20  # rows: closer to an end than this, more are asked for


class Row(Protocol):
    """Frozen: an equal row has the same lines."""

    @property
    def key(self) -> str: ...

    @property
    def selectable(self) -> bool: ...

    def lines(self, width: int) -> Sequence[Line]:
        """At least one; each at most `width` cells."""
        ...


class Feed(ScrollView, can_focus=True):
    """Rows below each other; one is selected. What is read stays where it is when rows change, come or go."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {*(f"feed--{role}" for role in ROLES), "feed--mark", "feed--row", "feed--selected"}
    DEFAULT_CSS = """
    Feed { scrollbar-size-vertical: 1; overflow-x: hidden; background: transparent; }
    Feed .feed--dim { color: $text-muted; }
    Feed .feed--strong { text-style: bold; }
    Feed .feed--accent { color: $text-primary; }
    Feed .feed--good { color: $text-success; }
    Feed .feed--bad { color: $text-error; }
    Feed .feed--warn { color: $text-warning; }
    Feed .feed--rule { color: $foreground 25%; }
    Feed .feed--match { text-style: bold underline; }
    Feed .feed--mark { color: $foreground 35%; }
    Feed:focus .feed--mark { color: $primary; }
    Feed .feed--selected { background: $foreground 4%; }
    Feed:focus .feed--selected { background: $primary 12%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "turn_page(-1)", "Page up", show=False),
        Binding("pagedown", "turn_page(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]

    class Moved(Message):
        """Another row is selected, or none."""

        def __init__(self, feed: Feed, key: str) -> None:
            super().__init__()
            self.feed, self.key = feed, key

        @property
        def control(self) -> Feed:
            return self.feed

    class Chosen(Moved):
        """Enter, or a click on the row."""

    class NearEnd(Message):
        """What is seen comes close to the first row (`top`) or the last one."""

        def __init__(self, feed: Feed, top: bool) -> None:
            super().__init__()
            self.feed, self.top = feed, top

        @property
        def control(self) -> Feed:
            return self.feed

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self._rows: list[Row] = []
        self._places: dict[str, int] = {}
        self._lines: dict[str, tuple[Row, Sequence[Line]]] = {}
        self._ends: list[int] = []  # the line behind each row
        self._width = 0
        self._selected = ""
        self._follows = self._was_at_end = False
        self._seen_height = 0  # of the screen, when it was last said what is in sight

    # -- what it shows

    @property
    def selected(self) -> str:
        """The selected row's key; empty where there is none."""
        return self._selected

    def row(self, key: str) -> Row | None:
        place = self._places.get(key)
        return self._rows[place] if place is not None else None

    @property
    def at_end(self) -> bool:
        """Whether the last line is in sight."""
        return self.scroll_offset.y >= self._height - self.size.height

    def show(self, rows: Sequence[Row], *, follow: bool = False) -> None:
        """Show these rows from now on, of unique keys. What is in sight stays in its place if it is still among them.

        Args:
            follow: stay at the end, where the end is in sight.
        """
        to_end = follow and (not self._rows or (self._was_at_end if self._follows else self.at_end))
        seen = self._seen()
        anchor = self._anchor()
        before = self._place(self._selected)
        self._rows, self._places = list(rows), {row.key: place for place, row in enumerate(rows)}
        self._measure()
        if self._selected not in self._places:
            self._select(self._nearest(before if before is not None else 0))
        if to_end:
            self._scroll(self._height)
        elif anchor is not None and (place := self._places.get(anchor[0])) is not None:
            self._scroll(self._start(place) + anchor[1])
        else:
            self._scroll(self.scroll_offset.y)
        self._redraw(seen)
        self._follows, self._was_at_end, self._seen_height = follow, to_end or self.at_end, self.size.height

    def select(self, key: str, *, top: bool = False) -> None:
        """Select a row and bring it in sight, at the top if asked; nothing happens if it is not there."""
        place = self._places.get(key)
        if place is not None:
            self._select(key)
            self._reveal(place, top=top)

    def to_start(self) -> None:
        self.action_first()

    def to_end(self) -> None:
        self.action_last()

    # -- keys and mouse

    def action_move(self, by: int) -> None:
        """To the next row; first through the rest of one that is taller than the screen."""
        place = self._place(self._selected)
        if place is None:
            return
        top, bottom = self.scroll_offset.y, self.scroll_offset.y + self.size.height
        if by > 0 and self._ends[place] > bottom and self._start(place) < bottom:
            self._scroll(top + min(self._ends[place] - bottom, max(1, self.size.height // 2)))
            return
        if by < 0 and self._start(place) < top and self._ends[place] > top:
            self._scroll(top - min(top - self._start(place), max(1, self.size.height // 2)))
            return
        following = self._next(place, by)
        if following is None:
            self._scroll(0 if by < 0 else self._height)
        else:
            self._select(self._rows[following].key)
            self._reveal(following, from_below=by < 0)
        self._tell_near()

    def action_turn_page(self, by: int) -> None:
        """Scroll by a screen; the selection comes along."""
        self._scroll(self.scroll_offset.y + by * max(1, self.size.height - 2))
        self._select_in_sight(by)
        self._tell_near()

    def action_first(self) -> None:
        self._scroll(0)
        self._select(self._nearest(0))
        self._tell_near()

    def action_last(self) -> None:
        self._scroll(self._height)
        self._select(self._nearest(len(self._rows) - 1))
        self._tell_near()

    def action_choose(self) -> None:
        if self._selected:
            self.post_message(self.Chosen(self, self._selected))

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None or not 0 <= offset.y + self.scroll_offset.y < self._height:
            return
        row = self._rows[bisect_right(self._ends, offset.y + self.scroll_offset.y)]
        if row.selectable:
            self._select(row.key)
            self.post_message(self.Chosen(self, row.key))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self.size.height == self._seen_height:  # else it is the layout that scrolls, and `on_resize` follows
            self._was_at_end = self.at_end
        if round(old_value) != round(new_value):
            self._tell_near()

    # -- drawing

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        if shown:  # one that comes up was not told where it is
            self.vertical_scrollbar.position = self.scroll_y

    def on_resize(self) -> None:
        anchor = self._anchor()
        self._measure()
        self._seen_height = self.size.height
        if self._follows and self._was_at_end:  # what stands above it takes more room now
            self._scroll(self._height)
        elif anchor is not None:
            self._scroll(self._start(self._places[anchor[0]]) + anchor[1])
        else:
            self._scroll(self.scroll_offset.y)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        y += self.scroll_offset.y
        width = self.size.width
        if y >= self._height:
            return Strip.blank(width, self.rich_style)
        place = bisect_right(self._ends, y)
        row = self._rows[place]
        line = self._lines[row.key][1][y - self._start(place)]
        kind = "feed--selected" if row.key == self._selected else "feed--row"
        base = self.get_visual_style(kind).rich_style
        mark = _MARK if row.key == self._selected else "  "
        segments = [Segment(mark, self.get_visual_style(kind, "feed--mark").rich_style)]
        for text, role in line:
            segments.append(Segment(text, self.get_visual_style(kind, f"feed--{role}").rich_style if role else base))
        return Strip(segments).adjust_cell_length(width, base)

    def _measure(self) -> None:
        width = max(10, self.size.width - _MARGIN - 1)
        known = self._lines if width == self._width else {}
        self._width, self._lines = width, {}
        heights = []
        for row in self._rows:
            found = known.get(row.key)
            if found is None or (found[0] is not row and found[0] != row):
                found = row, row.lines(width)
            self._lines[row.key] = found
            heights.append(len(found[1]))
        self._ends = list(accumulate(heights))
        self.virtual_size = Size(self.size.width, self._height)

    def _redraw(self, seen: list[tuple[Line, bool]]) -> None:
        """Draw again those lines in sight that differ from what was `seen`."""
        for number, (now, before) in enumerate(zip(self._seen(), seen, strict=False)):
            if now != before:
                self.refresh_lines(self.scroll_offset.y + number)
        if len(seen) != self.size.height:
            self.refresh()

    def _seen(self) -> list[tuple[Line, bool]]:
        """Each line in sight, and whether its row is selected."""
        top = self.scroll_offset.y
        found: list[tuple[Line, bool]] = []
        for y in range(top, top + self.size.height):
            if y >= self._height:
                found.append(((), False))
                continue
            place = bisect_right(self._ends, y)
            key = self._rows[place].key
            found.append((self._lines[key][1][y - self._start(place)], key == self._selected))
        return found

    # -- places

    @property
    def _height(self) -> int:
        return self._ends[-1] if self._ends else 0

    def _start(self, place: int) -> int:
        return self._ends[place - 1] if place else 0

    def _place(self, key: str) -> int | None:
        return self._places.get(key)

    def _anchor(self) -> tuple[str, int] | None:
        """What must stay where it is: the selected row if it is in sight, else the first one; and how far above it the screen begins."""
        top = self.scroll_offset.y
        if not self._rows or not self._height:
            return None
        place = self._place(self._selected)
        if place is None or not (self._ends[place] > top and self._start(place) < top + self.size.height):
            place = min(bisect_right(self._ends, top), len(self._rows) - 1)
        if top == 0 and self._places.get(self._selected, 0) == self._first():
            return None  # at the very top: what comes above is to be seen
        return self._rows[place].key, top - self._start(place)

    def _first(self) -> int:
        return next((place for place, row in enumerate(self._rows) if row.selectable), 0)

    def _next(self, place: int, by: int) -> int | None:
        place += by
        while 0 <= place < len(self._rows):
            if self._rows[place].selectable:
                return place
            place += by
        return None

    def _nearest(self, place: int) -> str:
        """The key of the selectable row nearest to a place, from there on first."""
        place = min(max(0, place), len(self._rows) - 1)
        order = [*range(place, len(self._rows)), *range(place - 1, -1, -1)] if self._rows else []
        return next((self._rows[one].key for one in order if self._rows[one].selectable), "")

    def _select(self, key: str) -> None:
        if key == self._selected:
            return
        for one in (self._selected, key):
            place, self._selected = self._places.get(one), key
            if place is not None:
                self.refresh_lines(self._start(place), self._ends[place] - self._start(place))
        self.post_message(self.Moved(self, key))

    def _select_in_sight(self, by: int) -> None:
        top, bottom = self.scroll_offset.y, min(self._height, self.scroll_offset.y + self.size.height)
        if not self._rows:
            return
        first, last = bisect_right(self._ends, top), bisect_right(self._ends, max(top, bottom - 1))
        for place in range(last, first - 1, -1) if by > 0 else range(first, last + 1):
            if self._rows[place].selectable:
                self._select(self._rows[place].key)
                return

    def _reveal(self, place: int, *, top: bool = False, from_below: bool = False) -> None:
        start, end, height = self._start(place), self._ends[place], self.size.height
        while place and not self._rows[place - 1].selectable and end - self._start(place - 1) <= height:  # with its heading
            place -= 1
            start = self._start(place)
        if top or (start < self.scroll_offset.y and not (from_below and end - start > height)):
            self._scroll(start)
        elif end > self.scroll_offset.y + height or start < self.scroll_offset.y:
            self._scroll(start if end - start > height and not from_below else end - height)

    def _scroll(self, y: int) -> None:
        self.scroll_to(y=min(max(0, y), max(0, self._height - self.size.height)), animate=False, force=True)

    def _tell_near(self) -> None:
        if not self._rows:
            return
        top = bisect_right(self._ends, self.scroll_offset.y)
        bottom = bisect_right(self._ends, self.scroll_offset.y + self.size.height)
        if len(self._rows) - bottom < _NEAR:
            self.post_message(self.NearEnd(self, top=False))
        if top < _NEAR:
            self.post_message(self.NearEnd(self, top=True))

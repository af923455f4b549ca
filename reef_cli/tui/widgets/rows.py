"""A list of lines under a head line: any number of rows, of which only those in sight are ever painted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.events import Click, Resize
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.visual import Visual

_GAP = 2
_GUTTER = 3  # the cursor, a row's mark, and a space
_NEAR = 20
"""Rows before the end at which more are asked for."""


@dataclass(frozen=True, slots=True)
class Column:
    """`width` in cells; 0: what the others leave. Hidden where the list is narrower than `from_width`."""

    title: str
    width: int = 0
    right: bool = False
    from_width: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """`key` stays when the content changes; `cells` one a column; `mark` is one sign in front, or empty."""

    key: str
    cells: tuple[Content, ...]
    mark: str = ""
    dim: bool = False

    def is_same(self, other: Row) -> bool:
        return (self.key, self.mark, self.dim, len(self.cells)) == (other.key, other.mark, other.dim, len(other.cells)) and all(
            mine.is_same(theirs) for mine, theirs in zip(self.cells, other.cells, strict=True)
        )


class Rows(ScrollView, can_focus=True):
    """Keeps its cursor on the row that it is on, and what is in sight in its place, whatever is put before it or changes around it."""

    DEFAULT_CSS = """
    Rows {
        height: 1fr;
        scrollbar-size-vertical: 1;
        overflow-x: hidden;
    }
    Rows > .rows--head { color: $text-muted; }
    Rows > .rows--row { color: $foreground; }
    Rows > .rows--dim { color: $text-muted; }
    Rows > .rows--cursor {
        background: $block-cursor-blurred-background;
        color: $block-cursor-blurred-foreground;
    }
    Rows:focus > .rows--cursor {
        background: $block-cursor-background;
        color: $block-cursor-foreground;
        text-style: $block-cursor-text-style;
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"rows--head", "rows--row", "rows--cursor", "rows--dim"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home", "first", "First", show=False),
        Binding("end", "last", "Last", show=False),
        Binding("enter", "choose", "Open", show=False),
    ]
    cursor: reactive[int] = reactive(0, init=False)

    class Moved(Message):
        """The cursor lies on the row `key`."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows, self.key = rows, key

        @property
        def control(self) -> Rows:
            return self.rows

    class Chosen(Message):
        """Enter, or a click on the row that the cursor lies on."""

        def __init__(self, rows: Rows, key: str) -> None:
            super().__init__()
            self.rows, self.key = rows, key

        @property
        def control(self) -> Rows:
            return self.rows

    class NearEnd(Message):
        """The last rows come into sight: more are wanted, where there are more."""

        def __init__(self, rows: Rows) -> None:
            super().__init__()
            self.rows = rows

        @property
        def control(self) -> Rows:
            return self.rows

    def __init__(self, *columns: Column, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._columns = columns
        self._keys: list[str] = []
        self._index: dict[str, int] = {}
        self._make: Callable[[int], Row] = _nothing
        self._made: dict[int, Row] = {}  # those that came into sight since `show`
        self._told = 0  # rows that were there when more were last asked for

    @property
    def room(self) -> int:
        """Cells of a line, beside the scrollbar."""
        return self.scrollable_content_region.width

    @property
    def cursor_key(self) -> str | None:
        """The key of the row that the cursor lies on; None in an empty list."""
        return self._keys[self.cursor] if self._keys else None

    @property
    def keys(self) -> Sequence[str]:
        """Of all rows, in their order."""
        return self._keys

    def show(self, rows: Sequence[Row]) -> None:
        """Show these rows; only lines that differ are painted again."""
        self.show_lazily([row.key for row in rows], rows.__getitem__)

    def show_lazily(self, keys: Sequence[str], make: Callable[[int], Row]) -> None:
        """The same for a long list: the row at a place is made when it comes into sight."""
        key, at, top, count = self.cursor_key, self.cursor, round(self.scroll_y), len(self._keys)
        painted, self._made = self._made, {}
        self._keys, self._make = list(keys), make
        self._index = {key: index for index, key in enumerate(self._keys)}
        if len(self._keys) < count:
            self._told = 0
        found = self._index.get(key or "", min(at, max(0, len(self._keys) - 1)))
        if count != len(self._keys):
            self.virtual_size = Size(self.room, len(self._keys) + 1)
        if found != at:
            self.set_reactive(Rows.cursor, found)
            if top > 0:  # what is read stays where it is
                self.scroll_to(y=max(0, top + found - at), animate=False, force=True)
            self.refresh()
        else:
            self._repaint_changed(painted, top)
        if self.cursor_key is not None and self.cursor_key != key:
            self.post_message(self.Moved(self, self.cursor_key))

    def move_to(self, key: str) -> bool:
        """Put the cursor on that row; False: there is none."""
        index = self._index.get(key)
        if index is None:
            return False
        self.cursor = index
        return True

    def validate_cursor(self, value: int) -> int:
        return max(0, min(value, len(self._keys) - 1))

    def watch_cursor(self, before: int, now: int) -> None:
        if not self._keys:
            return
        self._repaint(before)
        self._repaint(now)
        self._into_sight(now)
        self.post_message(self.Moved(self, self._keys[now]))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._ask_for_more()

    def on_resize(self, event: Resize) -> None:
        self.virtual_size = Size(self.room, len(self._keys) + 1)
        self._into_sight(self.cursor)

    def watch_show_vertical_scrollbar(self, shown: bool) -> None:
        if shown:  # one that comes up was not told where it is
            self.vertical_scrollbar.position = self.scroll_y

    def action_move(self, by: int) -> None:
        self.cursor += by
        self._ask_for_more()

    def action_page(self, pages: int) -> None:
        self.cursor += pages * max(1, self.size.height - 2)
        self._ask_for_more()

    def action_first(self) -> None:
        self.cursor = 0

    def action_last(self) -> None:
        self.cursor = len(self._keys) - 1
        self._ask_for_more()

    def action_choose(self) -> None:
        if self.cursor_key is not None:
            self.post_message(self.Chosen(self, self.cursor_key))

    def on_click(self, event: Click) -> None:
        index = round(self.scroll_y) + event.y - 1
        if event.y < 1 or index >= len(self._keys):
            return
        if index == self.cursor:
            self.action_choose()
        self.cursor = index

    def render_line(self, y: int) -> Strip:
        width = self.room
        if y == 0:
            return self._line(" " * _GUTTER, [Content(column.title) for column in self._columns], "rows--head", width)
        index = round(self.scroll_y) + y - 1
        if index >= len(self._keys):
            return Strip.blank(width, self.rich_style)
        row = self._row(index)
        here = index == self.cursor
        name = "rows--cursor" if here else "rows--dim" if row.dim else "rows--row"
        return self._line(("▌" if here else " ") + (row.mark or " ") + " ", row.cells, name, width)

    def _line(self, gutter: str, cells: Sequence[Content], component: str, width: int) -> Strip:
        style = self.get_visual_style(component)
        parts = [Content(gutter)]
        for column, cell, room in zip(self._columns, cells, self._widths(width), strict=True):
            if room <= 0:
                continue
            cut = cell.truncate(room, ellipsis=True)
            free = room - cut.cell_length
            parts.append(Content.assemble(" " * free, cut) if column.right else Content.assemble(cut, " " * free))
            parts.append(Content(" " * _GAP))
        line = Content("").join(parts[:-1]) if len(parts) > 1 else parts[0]
        strips = Visual.to_strips(self, line, width, 1, style, pad=True)
        return strips[0].adjust_cell_length(width, style.rich_style) if strips else Strip.blank(width)

    def _widths(self, width: int) -> list[int]:
        shown = [column for column in self._columns if width >= column.from_width]
        fixed = sum(column.width for column in shown) + _GAP * (len(shown) - 1) + _GUTTER
        flexible = sum(1 for column in shown if not column.width)
        share = max(4, (width - fixed) // flexible) if flexible else 0
        return [0 if width < column.from_width else column.width or share for column in self._columns]

    def _into_sight(self, index: int) -> None:
        top, lines = round(self.scroll_y), max(1, self.size.height - 1)
        if index < top:
            self.scroll_to(y=index, animate=False, force=True)
        elif index >= top + lines:
            self.scroll_to(y=index - lines + 1, animate=False, force=True)

    def _repaint(self, index: int) -> None:
        y = index - round(self.scroll_y) + 1
        if 1 <= y < self.size.height:
            self.refresh(Region(0, y, self.room, 1))

    def _repaint_changed(self, painted: Mapping[int, Row], top: int) -> None:
        for index in range(top, top + self.size.height):
            before = painted.get(index)
            if index >= len(self._keys):
                if before is not None:
                    self._repaint(index)
            elif before is None or not self._row(index).is_same(before):
                self._repaint(index)

    def _row(self, index: int) -> Row:
        row = self._made.get(index)
        if row is None:
            self._made[index] = row = self._make(index)
        return row

    def _ask_for_more(self) -> None:
        last = max(round(self.scroll_y) + self.size.height, self.cursor)
        if len(self._keys) > self._told and last + _NEAR >= len(self._keys):
            self._told = len(self._keys)
            self.post_message(self.NearEnd(self))


def _nothing(index: int) -> Row:
    raise IndexError(index)

"""Long lists of rows of several lines: what is read stays, what is seen is all that is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.geometry import Region

from reef_cli.tui.widgets.feed import Feed, Line
from reef_cli.tui.wrapping import clean, cut, wrapped


@dataclass(frozen=True)
class Tall:
    key: str
    height: int = 1
    word: str = ""
    selectable: bool = True

    def lines(self, width: int) -> Sequence[Line]:
        return [((f"{self.key}.{number} {self.word}", ""),) for number in range(self.height)]


class Showing(App[None]):
    def compose(self) -> ComposeResult:
        yield Feed()

    @property
    def feed(self) -> Feed:
        return self.query_one(Feed)

    @property
    def seen(self) -> list[str]:
        return [self.feed.render_line(y).text.strip(" ▌").split(" ")[0] for y in range(self.feed.size.height)]


@given(st.text(), st.integers(1, 60))
def test_no_line_is_wider_than_asked_and_nothing_but_white_space_is_lost(text: str, width: int) -> None:
    shown = clean(text)
    lines = wrapped(shown, width)
    assert all(cell_len(line) <= max(2, width) for line in lines)
    assert "".join("".join(lines).split()) == "".join(shown.split())
    assert wrapped(shown, width, 3) == lines[:3]
    assert cell_len(cut(text, width)) <= width


@given(st.text(st.characters(categories=["Cc", "Cf", "Co", "Cs", "Zl", "Zp"]) | st.sampled_from("\x1b[]0;m\\\x07ab")))
def test_recorded_text_cannot_steer_the_terminal(text: str) -> None:
    assert all(character.isprintable() or character == "\n" for character in clean(text))
    assert cut(text, 40).isprintable()


async def test_what_is_read_stays_where_it_is_when_rows_come_above_it() -> None:
    app = Showing()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = [Tall(f"r{number}", 3) for number in range(20)]
        app.feed.show(rows)
        app.feed.select("r9", top=True)
        await pilot.pause()
        before = app.seen
        assert before[0] == "r9.0"
        app.feed.show([Tall("new", 5), *rows, Tall("last", 5)])
        await pilot.pause()
        assert app.seen == before and app.feed.selected == "r9"
        app.feed.show([Tall("r8", 7), *rows[9:]])  # rows above went, one grew
        await pilot.pause()
        assert app.seen == before
        await pilot.resize_terminal(30, 10)
        assert app.seen == before


async def test_it_follows_the_end_only_where_the_end_is_in_sight() -> None:
    app = Showing()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = [Tall(f"r{number}", 2) for number in range(20)]
        app.feed.show(rows, follow=True)
        await pilot.pause()
        assert app.seen[-1] == "r19.1"
        app.feed.show([*rows, Tall("next", 2)], follow=True)
        await pilot.pause()
        assert app.seen[-1] == "next.1"
        await pilot.press("home")
        app.feed.show([*rows, Tall("next", 2), Tall("more", 2)], follow=True)
        await pilot.pause()
        assert app.seen[0] == "r0.0"


async def test_a_row_taller_than_the_screen_is_read_to_its_end_before_the_next_one() -> None:
    app = Showing()
    async with app.run_test(size=(40, 10)) as pilot:
        app.feed.show([Tall("a"), Tall("long", 24), Tall("b")])
        app.feed.focus()
        await pilot.press("down")
        assert app.feed.selected == "long" and app.seen[0] == "long.0"
        tops = []
        while app.feed.selected == "long":
            await pilot.press("down")
            tops.append(app.seen[-1])
        assert "long.23" in tops and app.feed.selected == "b"
        await pilot.press("up")
        assert app.feed.selected == "long" and app.seen[-1] in ("long.23", "b.0")


async def test_only_lines_that_differ_are_drawn_again() -> None:
    app = Showing()
    async with app.run_test(size=(40, 10)) as pilot:
        rows = [Tall(f"r{number}") for number in range(300)]
        app.feed.show(rows)
        await pilot.pause()
        drawn: list[int] = []
        refresh = app.feed.refresh

        def counted(*regions: Region, **named: bool) -> Feed:
            drawn.append(sum(region.height for region in regions) if regions else 99)
            return refresh(*regions, **named)

        app.feed.refresh = counted  # type: ignore[method-assign]
        rows[4] = Tall("r4", word="changed")
        app.feed.show(rows)
        assert drawn == [1]
        drawn.clear()
        rows[200] = Tall("r200", word="out of sight")
        app.feed.show(rows)
        assert drawn == []


async def test_the_mouse_selects_what_is_clicked() -> None:
    app = Showing()
    async with app.run_test(size=(40, 10)) as pilot:
        app.feed.show([Tall("rule", selectable=False), Tall("a", 3), Tall("b", 3)])
        await pilot.pause()
        await pilot.click(Feed, offset=(5, 5))
        assert app.feed.selected == "b"
        await pilot.click(Feed, offset=(5, 0))
        assert app.feed.selected == "b", "a rule is no row to select"
        await pilot.click(Feed, offset=(5, 9))
        assert app.feed.selected == "b"


async def test_who_follows_the_end_stays_there_when_the_screen_gets_smaller() -> None:
    app = Showing()
    async with app.run_test(size=(40, 30)) as pilot:
        rows = [Tall(f"r{number}", 2) for number in range(20)]
        app.feed.show(rows, follow=True)
        await pilot.pause()
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert app.seen[-1] == "r19.1"
        assert app.feed.vertical_scrollbar.position == app.feed.max_scroll_y, "the bar stands where the text does"

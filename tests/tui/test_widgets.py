"""The widgets that the tabs share, each in an app of its own."""

from __future__ import annotations

from random import Random

from hypothesis import given
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.content import Content
from textual.pilot import Pilot

from reef_cli.tui.widgets.ask import Ask
from reef_cli.tui.widgets.bars import area, change_bar, outcome_bar, share_bar, sparkline
from reef_cli.tui.widgets.choose import Choice, Choose
from reef_cli.tui.widgets.confirm import Confirm
from reef_cli.tui.widgets.details import Section, laid_out
from reef_cli.tui.widgets.rows import Column, Row, Rows
from reef_cli.tui.widgets.steady import Steady
from tests.tui.looking import screen_text

COUNTS = st.integers(0, 1000)
SHARES = st.floats(-1, 2, allow_nan=False)


@given(COUNTS, COUNTS, COUNTS, st.integers(3, 60))
def test_an_outcome_bar_is_as_wide_as_asked_and_shows_whatever_there_is(wins: int, losses: int, ties: int, width: int) -> None:
    text = outcome_bar(wins, losses, ties, width).plain
    assert len(text) == width
    for count, sign in ((wins, "█"), (losses, "▒"), (ties, "─")):
        assert bool(count) == (sign in text)
    if wins > 2 * losses and wins + losses + ties > 0 and width > 10:
        assert text.count("█") >= text.count("▒")


@given(SHARES, SHARES, st.integers(1, 60), st.lists(st.floats(-5, 1e6, allow_nan=False), max_size=80), st.integers(1, 6))
def test_every_bar_has_the_width_that_it_is_given(one: float, other: float, width: int, values: list[float], height: int) -> None:
    assert len(share_bar(one, width).plain) == len(change_bar(one, other, width).plain) == len(sparkline(values, width).plain) == width
    lines = area(values, width, height)
    assert [len(line.plain) for line in lines] == [width] * height
    if any(value > 0 for value in values[-width:]):
        assert "█" in lines[0].plain, "the highest value fills its column"


def test_facts_stand_in_one_column_and_markup_is_no_markup() -> None:
    text = laid_out([Section("Release", [("id", "r1"), ("change", "[bold]+1 rule[/bold]")]), Section(text="more")]).plain
    assert text == "Release\nid      r1\nchange  [bold]+1 rule[/bold]\n\nmore"


class Listing(App[None]):
    def __init__(self) -> None:
        super().__init__()
        self.moved: list[str] = []
        self.wanted = 0

    def compose(self) -> ComposeResult:
        yield Rows(Column("name"), Column("n", 6, right=True), Column("note", 8, from_width=60))

    def on_rows_moved(self, event: Rows.Moved) -> None:
        self.moved.append(event.key)

    def on_rows_near_end(self, event: Rows.NearEnd) -> None:
        self.wanted += 1


def made(keys: list[int]) -> list[Row]:
    return [Row(f"k{key}", (Content(f"row {key} [b]x[/b]"), Content(str(key)), Content("note"))) for key in keys]


async def test_a_list_keeps_its_cursor_on_its_row_and_what_is_read_in_its_place() -> None:
    random = Random(7)
    app = Listing()
    async with app.run_test(size=(50, 12)) as pilot:
        rows = app.query_one(Rows)
        rows.focus()
        keys = list(range(100, 0, -1))
        rows.show(made(keys))
        await pilot.press("pagedown", "pagedown")
        await pilot.pause()
        cut = [line for line in _seen(pilot) if line.split("row ")[1].split()[0] != line.rstrip("▁▂▃▄▅▆▇█ ").split()[-1]]
        assert not cut, "numbers that the scrollbar covers"
        key = rows.cursor_key
        assert key is not None
        for turn in range(40):
            before = _seen(pilot)
            if random.random() < 0.5:
                keys = [max(keys) + 1, *keys]  # a new one on top
            elif len(keys) < 200:
                keys = [*keys, min(keys) - 1]
            rows.show(made(keys))
            await pilot.pause()
            assert rows.cursor_key == key, turn
            assert _seen(pilot) == before, "what was in sight moved"
        keys.remove(int(key[1:]))
        rows.show(made(keys))
        await pilot.pause()
        assert rows.cursor_key in {f"k{one}" for one in keys}, "the next row takes its place"


async def test_only_rows_in_sight_are_made_and_more_are_asked_for_near_the_end() -> None:
    app = Listing()
    asked: list[int] = []

    def make(index: int) -> Row:
        asked.append(index)
        return made([index])[0]

    async with app.run_test(size=(80, 12)) as pilot:
        rows = app.query_one(Rows)
        rows.focus()
        rows.show_lazily([f"k{index}" for index in range(10_000)], make)
        await pilot.pause()
        assert len(asked) <= 12
        await pilot.press("end")
        await pilot.pause()
        assert len(asked) <= 40 and "9999" in screen_text(pilot) and app.wanted == 1
        assert "[b]x[/b]" in screen_text(pilot), "recorded text is no markup"


async def test_a_row_is_chosen_by_key_and_by_a_second_click_and_a_narrow_list_drops_a_column() -> None:
    class Choosing(Listing):
        chosen: str = ""

        def on_rows_chosen(self, event: Rows.Chosen) -> None:
            self.chosen = event.key

    app = Choosing()
    async with app.run_test(size=(80, 12)) as pilot:
        app.query_one(Rows).show(made([3, 2, 1]))
        await pilot.click(Rows, offset=(5, 2))
        await pilot.pause()
        assert app.moved[-1] == "k2" and not app.chosen
        await pilot.click(Rows, offset=(5, 2))
        await pilot.pause()
        assert app.chosen == "k2"
        assert "note" in screen_text(pilot)
        await pilot.resize_terminal(50, 12)
        await pilot.pause()
        assert "note" not in screen_text(pilot)


async def test_dialogs_answer_by_key_and_by_mouse_and_leave_by_escape() -> None:
    app = App[None]()
    answers: list[object] = []
    async with app.run_test(size=(80, 24)) as pilot:
        confirm = Confirm("Roll back to r12", ["r15 will serve r12's content [x]."], yes="Roll back")
        for keys in (("y",), ("enter",), ("n",), ("escape",)):
            app.push_screen(Confirm("Roll back to r12", ["r15 will serve r12's content [x]."], yes="Roll back"), answers.append)
            await pilot.pause()
            assert "r15 will serve r12's content [x]." in screen_text(pilot) and "y Roll back" in screen_text(pilot)
            await pilot.press(*keys)
            await pilot.pause()
        assert answers == [True, True, None, None]
        app.push_screen(confirm, answers.append)
        await pilot.pause()
        await pilot.click(".yes")
        await pilot.pause()
        app.push_screen(Ask("Note", "What was good?"), answers.append)
        await pilot.pause()
        await pilot.press(*"short", "enter")
        await pilot.pause()
        app.push_screen(Choose("Recipe", [Choice("a", "sft"), Choice("b", "demos", "prompts")], current="b"), answers.append)
        await pilot.pause()
        await pilot.press("up", "enter")
        await pilot.pause()
        assert answers[4:] == [True, "short", "a"]


async def test_the_same_text_again_is_not_painted_again() -> None:
    class Showing(App[None]):
        def compose(self) -> ComposeResult:
            yield Steady("42 tokens")

    app = Showing()
    async with app.run_test(size=(40, 4)) as pilot:
        shown = app.query_one(Steady)
        updates: list[object] = []
        update = shown.update
        shown.update = lambda *content, **how: (updates.append(content), update(*content, **how))[1]  # type: ignore[method-assign]
        shown.show("42 tokens")
        assert not updates
        shown.show(Content.styled("42 tokens", "bold"))
        shown.show("a [b]bracket[/b]")
        await pilot.pause()
        assert len(updates) == 2 and "a [b]bracket[/b]" in screen_text(pilot)


def _seen(pilot: Pilot[None]) -> list[str]:
    return [line[:49] for line in screen_text(pilot).splitlines()[1:]]  # without the scrollbar

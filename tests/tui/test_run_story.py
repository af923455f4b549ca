"""What a run told, as a curve, in words and in order."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from daemon.records import JSONObject
from reef_cli.tui.runs import words
from reef_cli.tui.runs.curve import curve
from reef_cli.tui.runs.story import Story
from reef_cli.tui.runs.view import rows_of
from tests.tui.canned_runs import RUNS, decided, evaluated, started, timed


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=200), st.integers(1, 60), st.integers(1, 8), st.floats(0, 1))
def test_a_curve_has_the_size_that_was_asked_for(values: list[float], width: int, height: int, share: float) -> None:
    lines = curve(values, width, height, share=share)
    assert len(lines) == height and all(len(line) == width for line in lines)
    assert any("\u2801" <= character <= "\u28ff" for line in lines for character in line) == any(math.isfinite(value) for value in values)


def test_a_curve_falls_where_the_loss_falls_and_leaves_room_for_what_is_to_come() -> None:
    falling = curve([4.0, 3.0, 2.0, 1.0], 20, 4)
    assert falling[0][0] != " " and falling[0][-1] == " " and falling[-1][-1] != " " and falling[-1][0] == " "
    half = curve([4.0, 3.0, 2.0, 1.0], 20, 4, share=0.5)
    assert all(line[10:].strip() == "" for line in half)
    assert curve([2.0, 1.0] * 500, 10, 2) == ["⡠⠤" * 5, "  " * 5] or all(line.strip() for line in curve([2.0, 1.0] * 500, 10, 1))


def numbered(events: list[JSONObject]) -> list[JSONObject]:
    return [{"cursor": number, **event} for number, event in enumerate(timed(events), 1)]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=12))
def test_a_story_is_the_same_however_often_the_connection_broke(breaks: list[int]) -> None:
    events = numbered([*started(), *evaluated(), *decided()])
    told, again = Story(), Story()
    for event in events:
        told.take(event)
    at = 0
    for back in [*breaks, 0]:
        for event in events[max(0, at - back) : at + 40]:
            again.take(event)
        at += 40
    for event in events:
        again.take(event)
    shown, repeated = ([row.lines(90) for row in rows_of(RUNS[0], story)] for story in (told, again))
    assert shown == repeated


@pytest.mark.parametrize("width", [20, 44, 80, 140])
def test_every_row_fits_its_width(width: int) -> None:
    story = Story()
    for event in numbered([*started(), *evaluated(), *decided()]):
        story.take(event)
        for row in rows_of(RUNS[0], story, {"answers", "split-held-in", "split-held-out-1"}):
            for line in row.lines(width):
                assert sum(cell_len(text) for text, _ in line) <= width, line


def test_odd_events_break_nothing() -> None:
    story = Story()
    for number, event in enumerate(
        [{"type": "task"}, {"type": "step", "loss": "x"}, {"type": "phase"}, {"type": "probe"}, {"type": "later"}, {}], 1
    ):
        story.take({"cursor": number, **event})
    story.take({"type": "phase", "phase": "without a cursor"})
    assert [phase.name for phase in story.phases] == ["?"]
    assert rows_of({}, story)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({}, []),
        ({"held_out": {"wins": 0, "losses": 0, "ties": 20}, "p": 1.0, "level": 0.06, "look": 1}, ["All 20 tasks came out as before."]),
        (
            {"held_out": {"wins": 1, "losses": 0, "ties": 19}, "p": 0.5, "level": 0.061, "look": 1, "more_tasks": 60},
            [
                "1 of the 1 task that came out differently was won, 0 lost; 19 came out the same.",
                "If both were equally good, luck alone would do at least as well with probability .5; the gate lets pass what is at"
                " most .061.",
                "60 more tasks of this kind would decide.",
            ],
        ),
        ({"floor": 0.8, "mean": 0.74}, ["The mean held-out score is 0.74; the floor is 0.80."]),
    ],
)
def test_statistics_are_said_in_words(facts: JSONObject, said: list[str]) -> None:
    assert words.statistics(facts) == said


@pytest.mark.parametrize(("seconds", "said"), [(0.42, "0.4 s"), (59.4, "59 s"), (130, "2m 10s"), (3780, "1h 03m"), (-3, "0.0 s")])
def test_times_are_short(seconds: float, said: str) -> None:
    assert words.took(seconds) == said

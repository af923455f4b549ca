"""What a person reads of releases in a terminal."""

from __future__ import annotations

import os
import sys

import pytest

from daemon.records import JSONObject
from reef_cli import change_line

from .conftest import StandIn

LIST = "GET /reef/scenarios/default/releases"


def item(release_id: str, *texts: str, **more: object) -> JSONObject:
    parts = [{"text": text, "weight": 9 - number} for number, text in enumerate(texts)]
    fields: dict[str, object] = {"release_id": release_id, "operation": "training", "recipe": "ace", "recorded_at": 0, "parts": parts}
    return fields | more  # type: ignore[return-value]


RELEASES: JSONObject = {
    "releases": [
        item("r5", "LoRA r16 (9.4 MB)", pending=True, aged=True, state="held"),
        item("r4", "+8 demonstrations", "held-out 0→8 of 20", "(+8 −0, p .004)", "tokens +3 %", current=True, pinned=True),
        item("r3", "+8 demonstrations", state="promoted", promoted_as="r4"),
        item("r2", "LoRA", state="rejected"),
        item("r1", "the base model, without LoRA or harness", operation="creation", recipe=None, weights_collected=True),
    ],
    "next": None,
}


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback=(80, 24): os.terminal_size((columns, 24)))
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_list_says_what_changed_and_how_each_release_stands(reef, daemon: StandIn) -> None:
    daemon.answer(LIST, RELEASES)
    lines = reef("releases").out.splitlines()
    assert "○ held, aged" in lines[1]
    assert "+8 demonstrations · held-out 0→8 of 20 (+8 −0, p .004) · tokens +3 %" in lines[2]
    assert "● serving ◆ pinned" in lines[2] and "ace" in lines[2]
    assert "↑ promoted as r4" in lines[3] and "× rejected" in lines[4]
    assert "creation" in lines[5] and "weights collected" in lines[5]
    assert len(lines) == 6


def test_a_longer_list_names_the_command_for_the_next_page(reef, daemon: StandIn) -> None:
    daemon.answer("GET /reef/scenarios/pi/releases", {**RELEASES, "next": "r80"})
    assert "reef releases -s pi --before r80" in reef("releases", "-s", "pi", "--before", "r99").out
    assert "before=r99" in daemon.asked[-1][1]
    daemon.answer(LIST, {"releases": [], "next": None})
    assert "has no release before r1." in reef("releases", "--before", "r1").out


def test_at_80_columns_what_matters_least_is_left_out_and_the_state_is_not(reef, daemon: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    daemon.answer(LIST, {"releases": [RELEASES["releases"][1]], "next": None})  # type: ignore[index]
    terminal(monkeypatch, 80)
    line = reef("releases").out.splitlines()[1]
    assert len(line) <= 80 and "● serving ◆ pinned" in line
    assert "+8 demonstrations" in line and "tokens" not in line


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, "a · b (c) · d"),
        (13, "a · b (c) · d"),
        (12, "a · b (c)"),
        (8, "a · b"),
        (4, "a"),
        (1, "a"),
        (0, "…"),
    ],
)
def test_a_line_is_shortened_part_by_part(width: int | None, line: str) -> None:
    assert change_line.fit([("a", 9), ("b", 8), ("(c)", 5), ("d", 3)], width) == line


def test_one_long_part_is_cut_and_says_so() -> None:
    assert change_line.line({"parts": [{"text": "many words\x1b[31m here", "weight": 9}]}, 12) == "many words …"
    assert change_line.line({"change": "as an older daemon says it"}) == "as an older daemon says it"

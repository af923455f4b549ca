"""A comparison of two texts says exactly what differs, and marks the words."""

from __future__ import annotations

import difflib
import time

from hypothesis import given
from hypothesis import strategies as st

from daemon.versions.word_diff import Hunk, LineKind, hunks, unified

LINES = st.lists(st.text(alphabet="ab .\t-é\u2028", max_size=6), max_size=12)


def marked(found: tuple[Hunk, ...]) -> list[str]:
    """`-gone [this]`."""
    signs = {LineKind.SAME: " ", LineKind.REMOVED: "-", LineKind.ADDED: "+"}
    return [
        signs[line.kind] + "".join(f"[{text}]" if changed else text for text, changed in line.segments)
        for hunk in found
        for line in hunk.lines
    ]


def test_the_words_that_changed_are_marked_and_no_others() -> None:
    found = hunks("# Rules\n- Run the tests with pytest.\n- Be brief.\n", "# Rules\n- Run all tests with pytest -q.\n- Be brief.\n")
    assert marked(found) == [" # Rules", "-- Run [the] tests with pytest.", "+- Run [all] tests with pytest[ -q].", " - Be brief."]
    assert [(line.before, line.after) for line in found[0].lines] == [(1, 1), (2, None), (None, 2), (3, 3)]


def test_a_line_that_has_little_in_common_is_marked_whole() -> None:
    assert marked(hunks("- Use tabs.\n", "- Never push to main without asking.\n")) == [
        "-[- Use tabs.]",
        "+[- Never push to main without asking.]",
    ]


def test_new_and_removed_files_are_marked_whole_and_equal_ones_not_at_all() -> None:
    assert marked(hunks("", "a\nb\n")) == ["+[a]", "+[b]"]
    assert marked(hunks("a\n", "")) == ["-[a]"]
    assert hunks("a\n", "a\n") == ()


def test_places_far_apart_are_apart() -> None:
    text = [f"line {number}" for number in range(40)]
    other = [*text[:5], "x", *text[6:30], *text[31:]]
    found = hunks("\n".join(text), "\n".join(other))
    assert [(hunk.before_line, hunk.after_line) for hunk in found] == [(3, 3), (28, 28)]


def test_a_long_text_is_compared_in_bounded_time() -> None:
    old, new = (" ".join(f"{word}{number}" for number in range(20_000)) for word in "ab")
    assert marked(hunks(old, new)) == [f"-[{old}]", f"+[{new}]"]
    lines = [f"line {number}" for number in range(20_000)]
    began = time.process_time()
    [hunk] = hunks("\n".join(["a", *lines, "z"]), "\n".join(["a", *reversed(lines), "z"]))
    assert (len(hunk.lines), hunk.before_line, hunk.lines[0].kind, hunk.lines[-1].kind) == (40_002, 1, LineKind.SAME, LineKind.SAME)
    few = "\n".join(" ".join("ab"[number * number % 7 % 2] for number in range(start, start + 1500)) for start in (0, 3))
    hunks(few, few[1:])
    assert time.process_time() - began < 2


@given(LINES, LINES)
def test_both_texts_can_be_read_back(old: list[str], new: list[str]) -> None:
    """Outside of the places that are shown nothing changed, and inside every piece is there."""
    before, after = ("\n".join(lines).splitlines() for lines in (old, new))
    built, place = list[str](), 0
    found = hunks("\n".join(old), "\n".join(new))
    plain = difflib.unified_diff(before, after, "a", "b", lineterm="")
    assert unified(("a", "b"), found) == "\n".join(list(plain) or ["--- a", "+++ b"]) + "\n"
    for hunk in found:
        built += before[place : hunk.before_line - 1]
        place = hunk.before_line - 1
        assert len(built) == hunk.after_line - 1
        for line in hunk.lines:
            text = "".join(piece for piece, _ in line.segments)
            if line.kind is not LineKind.ADDED:
                assert before[place] == text and line.before == place + 1
                place += 1
            if line.kind is not LineKind.REMOVED:
                built.append(text)
                assert line.after == len(built)
            assert line.kind is not LineKind.SAME or not any(changed for _, changed in line.segments)
    assert built + before[place:] == after

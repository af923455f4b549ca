"""What holds for every format, whatever a model writes and however the reply is cut into pieces."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Delta
from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.formats.families import FORMATS
from daemon.engine.llama.formats.json_scan import JSONScanner
from daemon.engine.llama.formats.marked import MarkedFormat
from tests.engine.family_replies import REPLIES, TOOLS

BY_NAME = {known.name: known for known in FORMATS}
PIECES = [
    "{",
    "}",
    '"',
    "\\",
    ":",
    ",",
    "[",
    "]",
    "\n",
    " ",
    "a",
    "é",
    "🙂",
    "write",
    "list",
    '{"name": "list"}',
    "{}",
    "<",
    ">",
    "</",
    "\x00",
]


def _read(form: ToolFormat, pieces: Sequence[str], *, tools: bool = True, prompt_end: str = "") -> tuple[list[tuple[str, str]], str]:
    """What was shown, in order, neighbours of a kind joined and ids left out; and the note."""
    parser = form.parser(TOOLS if tools else (), prompt_end)
    shown: list[tuple[str, str]] = []
    for delta in [delta for piece in pieces for delta in parser.push(piece)] + parser.finish():
        kind, text = _seen(delta)
        if shown and shown[-1][0] == kind != "call":
            shown[-1] = (kind, shown[-1][1] + text)
        else:
            shown.append((kind, text))
    return shown, parser.note


def _seen(delta: Delta) -> tuple[str, str]:
    if delta.tool_calls:
        (call,) = delta.tool_calls
        return "call", json.dumps([call["index"], call["function"]])
    return ("reasoning", delta.reasoning) if delta.reasoning else ("text", delta.text)


def _marks(form: ToolFormat) -> list[str]:
    """Whatever may be at a border in this format."""
    marks = {*form.markers, *form.reasoning}
    if isinstance(form, MarkedFormat):
        marks |= {*form.openings, *form.starts, *form.dropped}
    reply = REPLIES[form.name]
    return sorted({*marks, reply, *(mark[:-1] for mark in marks), *(mark[1:] for mark in marks)})


@st.composite
def _replies(draw: st.DrawFn) -> tuple[ToolFormat, str, list[int]]:
    form = BY_NAME[draw(st.sampled_from(sorted(BY_NAME)))]
    reply = REPLIES[form.name]
    cut = st.integers(0, len(reply)).map(lambda at: reply[:at]) | st.integers(0, len(reply)).map(lambda at: reply[at:])
    parts = draw(st.lists(st.sampled_from(_marks(form)) | st.sampled_from(PIECES) | cut, max_size=8))
    text = "".join(parts)
    return form, text, sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))


def _cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *places, len(text)]
    return [text[start:end] for start, end in pairwise(edges)]


@settings(max_examples=80, deadline=None)
@given(_replies())
def test_streamed_and_unstreamed_agree(case: tuple[ToolFormat, str, list[int]]) -> None:
    form, text, places = case
    whole = _read(form, [text])
    assert _read(form, _cut(text, places)) == whole
    assert _read(form, list(text)) == whole


@settings(max_examples=80, deadline=None)
@given(_replies())
def test_nothing_is_lost_and_nothing_comes_twice(case: tuple[ToolFormat, str, list[int]]) -> None:
    form, text, _ = case
    shown, _ = _read(form, [text])
    said = "".join(text for kind, text in shown if kind != "call")
    assert _is_within("".join(said.split()), "".join(text.split()))
    if all(kind == "text" for kind, _ in shown) and form.name != "harmony":  # whose headers are left out
        assert _bare(form, said) == _bare(form, text)


@settings(max_examples=40, deadline=None)
@given(_replies())
def test_calls_are_of_tools_of_the_request_with_json_objects_for_arguments(case: tuple[ToolFormat, str, list[int]]) -> None:
    form, text, places = case
    calls = [json.loads(text) for kind, text in _read(form, _cut(text, places))[0] if kind == "call"]
    names = [function["name"] for _, function in calls if "name" in function]
    assert set(names) <= {"write", "list"}
    assert [index for index, _ in calls] == [index for index in range(len(names)) for _ in range(2)]
    for _, function in calls[1::2]:
        assert isinstance(json.loads(function["arguments"]), dict)
        function["arguments"].encode()


@settings(max_examples=40, deadline=None)
@given(st.text(alphabet="abc <>{}[]\n|é", max_size=60), st.sampled_from(sorted(BY_NAME)), st.booleans())
def test_text_without_markers_is_not_touched(text: str, name: str, tools: bool) -> None:
    form = BY_NAME[name]
    if not any(mark in text for mark in _marks(form)[1:]):
        assert _read(form, list(text), tools=tools)[0] == ([("text", text)] if text else [])


def _bare(form: ToolFormat, text: str) -> str:
    text = "".join(text.split())
    marks = [*form.reasoning, *((*form.dropped, "all\n") if isinstance(form, MarkedFormat) else form.markers)]
    if form.name == "functionary-3.2":
        marks.append(">>>")
    for mark in (*marks, "<think>", "</think>"):
        text = text.replace("".join(mark.split()), "")
    return text


def _is_within(part: str, whole: str) -> bool:
    """Whether all characters of `part` are in `whole`, in order."""
    rest = iter(whole)
    return all(character in rest for character in part)


@pytest.mark.parametrize("name", BY_NAME)
def test_a_long_hostile_reply_takes_no_time(name: str) -> None:
    form = BY_NAME[name]
    text = "".join(_marks(form)) * 10 + form.markers[0] * 1000 + REPLIES[name][:-3] * 10
    started = time.process_time()
    _read(form, [text[at : at + 5] for at in range(0, len(text), 5)])
    assert time.process_time() - started < len(text) * 1e-4


@settings(max_examples=80, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    ).map(lambda value: json.dumps([value])),
    st.integers(0, 40),
    st.sampled_from(["", "x", "}", "]", '"', ",", ":", "1", "\\", "\n", "-", "tru", "\x01"]),
    st.integers(1, 9),
)
def test_json_ends_where_a_json_reader_says(text: str, at: int, inserted: str, size: int) -> None:
    broken = text[:at] + inserted + text[at:]
    scanner, read = JSONScanner(), 0
    for start in range(0, len(broken), size):
        piece = broken[start : start + size]
        taken = scanner.feed(piece, 0)
        read += taken
        if scanner.done or taken < len(piece):
            break
    try:
        _, end = json.JSONDecoder(parse_constant=lambda name: 1 / 0, strict=False).raw_decode(broken)
    except (ValueError, ZeroDivisionError):
        assert not scanner.done
    else:
        assert (scanner.done, read) == (True, end) or not broken.startswith("[")

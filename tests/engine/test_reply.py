"""A reply from tokens' bytes to what a client sees."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.engine.base import Finished, Priority
from daemon.engine.llama.formats.families import OURS
from daemon.engine.llama.formats.plain import PlainParser
from daemon.engine.llama.messages import event_of
from daemon.engine.llama.reply import ReplyText
from daemon.engine.llama.sampling import Choice, Sampler
from daemon.engine.llama.sequence import Sequence
from daemon.records import Sampling
from tests.engine.replies import READ

CALL = '<tool_call>\n{"name": "read", "arguments": {"path": "é 🙂"}}\n</tool_call>'


def _shown(reply: ReplyText, pieces: list[bytes]) -> tuple[str, str, str]:
    deltas = []
    for piece in pieces:
        deltas += reply.push(piece)
        if reply.stopped:
            break
    else:
        deltas += reply.finish()
    calls = [call["function"] for delta in deltas for call in delta.tool_calls]
    return "".join(delta.text for delta in deltas), "".join(delta.reasoning for delta in deltas), str(calls)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.sampled_from([CALL, "<think>", "</think>", "é", "🙂", "a", "END", "EN", "\n", b"\xff".decode("latin-1")]), max_size=6),
    st.lists(st.integers(0, 200), max_size=8),
    st.booleans(),
)
def test_bytes_may_be_cut_anywhere(parts: list[str], places: list[int], stops: bool) -> None:
    data = b"".join(b"\xff" if part == "\xff" else part.encode() for part in parts)
    edges = sorted({0, *(place for place in places if place < len(data)), len(data)})
    pieces = [data[start:end] for start, end in pairwise(edges)]
    stop = ("END",) if stops else ()
    whole = _shown(ReplyText(stop, OURS.parser((READ,), "")), [data])
    assert _shown(ReplyText(stop, OURS.parser((READ,), "")), pieces) == whole
    assert _shown(ReplyText(stop, OURS.parser((READ,), "")), [data[at : at + 1] for at in range(len(data))]) == whole
    assert "END" not in whole[0] or not stops


def test_a_stop_text_ends_the_reply_wherever_it_comes() -> None:
    reply = ReplyText(("\nUser:",), OURS.parser((READ,), ""))
    assert _shown(reply, [b"Yes.\nUs", b"er: and", b" more"])[0] == "Yes."
    assert reply.stopped and reply.stop == "\nUser:" and not reply.called
    reply = ReplyText(("🙂",), OURS.parser((READ,), ""))
    text, _, calls = _shown(reply, [CALL.encode()])
    assert (text, calls, reply.called) == ('<tool_call>\n{"name": "read", "arguments": {"path": "é ', "[]", False)
    assert "cut off" in reply.note


def test_a_reply_knows_that_it_called() -> None:
    reply = ReplyText((), OURS.parser((READ,), ""))
    _shown(reply, [CALL.encode()])
    assert reply.called and not reply.note
    plain = ReplyText((), PlainParser())
    assert _shown(plain, [CALL.encode()])[0] == CALL
    assert not plain.called


def test_tokens_of_reasoning_are_counted() -> None:
    """A client shows them beside those of the reply; the marks around the reasoning are neither."""
    tokens = [b"<think>", b"Let", b" me", b" see", b".", b"</think>", b"\n\n", b"It", b" is", b" 3"]
    sequence = Sequence(
        1, [0], None, Priority.LIVE, sampler=Sampler(Sampling(), [0]), reply=ReplyText((), OURS.parser((), "")), max_tokens=99
    )
    for number, piece in enumerate(tokens):
        sequence.accept(Choice(number, -0.5), piece, ends=False)
    sequence.accept(Choice(99, -0.5), b"", ends=True)
    usage = event_of(sequence.finished())
    assert isinstance(usage, Finished) and (usage.usage.completion_tokens, usage.usage.reasoning_tokens) == (11, 4)

"""Prompts in tokens: what cannot fit is refused before it costs anything, and no text of a client's becomes a control token."""

from __future__ import annotations

from datetime import date

import pytest

from daemon.engine.llama.chat.control_text import Piece
from daemon.engine.llama.chat.prompts import Prompts
from daemon.engine.llama.chat.template import Conversation, TooLong
from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.formats.families import OURS, format_of
from daemon.engine.llama.vocabulary import FillTokens
from daemon.errors import BadRequest, ContextOverflow, Unsupported
from daemon.records import JSONObject

OWN: ToolFormat = format_of("[TOOL_CALLS]")
BEGIN = 256


class Bytes:
    """A vocabulary of bytes, and of `<end>` as token 257 where control tokens count."""

    longest_piece_bytes = 5
    begin_text = "<begin>"
    defined_texts = frozenset({"<user>"})
    fill_tokens: FillTokens | None = FillTokens(300, 301, 302)

    def __init__(self) -> None:
        self.longest = 0

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        self.longest = max(self.longest, len(text))
        tokens = [BEGIN] if begin else []
        text = text.replace("<user>", chr(258))
        if special:
            text = text.replace("<begin>", chr(BEGIN)).replace("<end>", chr(257))
        return tokens + [ord(character) for character in text]


class Pieces:
    """Renders to the given pieces, and remembers what it was asked."""

    def __init__(self, *pieces: Piece, knows_tools: bool = True) -> None:
        self.pieces = list(pieces)
        self.knows_tools = knows_tools
        self.asked: list[Conversation] = []

    def render(self, conversation: Conversation) -> list[Piece]:
        self.asked.append(conversation)
        if (length := sum(len(text) for text, _ in self.pieces)) > conversation.most_characters:
            raise TooLong(length)
        return self.pieces


USER: list[JSONObject] = [{"role": "user", "content": "x"}]
TOOL: list[JSONObject] = [{"type": "function", "function": {"name": "f"}}]


def prompts(renderer: Pieces, context_tokens: int = 100, words: Bytes | None = None) -> Prompts:
    return Prompts(words or Bytes(), renderer, OWN, context_tokens)


def test_control_tokens_count_in_the_templates_text_only() -> None:
    renderer = Pieces(("a<end>", True), ("<end>", False), ("b", True))
    assert prompts(renderer).of_conversation(USER, []).tokens == [BEGIN, 97, 257, *map(ord, "<end>"), 98]


def test_a_role_marker_that_is_read_in_any_text_is_taken_apart_in_a_clients() -> None:
    renderer = Pieces(("<user>a", True), ("<user>", False), ("b", True))
    assert prompts(renderer).of_conversation(USER, []).tokens == [BEGIN, 258, 97, *map(ord, "<user>"), 98]


def test_a_template_that_writes_the_begin_token_gets_no_second_one() -> None:
    assert prompts(Pieces(("<begin>a", True))).of_conversation(USER, []).tokens == [BEGIN, 97]
    assert prompts(Pieces(("<begin>", False), ("a", True))).of_conversation(USER, []).tokens[:2] == [BEGIN, ord("<")]


def test_the_end_tells_the_parser_how_the_reply_begins() -> None:
    prompt = prompts(Pieces(("x" * 1000, True), ("<end>", False), ("<think>\n", True)), 2000).of_conversation(USER, [])
    assert prompt.end.endswith("x<end><think>\n") and len(prompt.end) == 400


def test_the_reply_is_read_in_the_form_that_the_prompt_asks_for() -> None:
    assert prompts(Pieces(("a", True))).of_conversation(USER, TOOL).format is OWN
    ours = prompts(Pieces(("a", True), knows_tools=False))
    assert ours.of_conversation(USER, TOOL).format is OURS
    assert ours.of_conversation(USER, []).format is OWN


@pytest.mark.parametrize("content", ["x" * 1000, [{"type": "text", "text": "x" * 600}, {"type": "text", "text": "x" * 600}]])
def test_a_text_that_cannot_fit_is_refused_unrendered(content: str | list[JSONObject]) -> None:
    renderer = Pieces(("a", True))
    message: JSONObject = {"role": "user", "content": content if isinstance(content, str) else [*content]}
    with pytest.raises(ContextOverflow, match="maximum context length is 100 tokens, however you requested at least 2"):
        prompts(renderer).of_conversation([message], [])
    assert not renderer.asked


def test_an_assistants_words_may_be_left_out_by_the_template() -> None:
    prompts(Pieces(("a", True))).of_conversation([{"role": "assistant", "content": "<think>" + "x" * 5000}], [])


def test_a_prompt_that_cannot_fit_is_refused_unsplit() -> None:
    words = Bytes()
    with pytest.raises(ContextOverflow, match="at least 200 tokens"):
        prompts(Pieces(("a" * 1000, True)), words=words).of_conversation(USER, TOOL)
    with pytest.raises(ContextOverflow, match="maximum context length is 100 tokens, however you requested at least 101 tokens"):
        prompts(Pieces(("a" * 501, True)), words=words).of_conversation(USER, [])
    with pytest.raises(ContextOverflow, match="at least"):
        prompts(Pieces(*[("<end>", False), ("", True)] * 150), 140, words=words).of_conversation(USER, [])
    assert words.longest == 0


def test_a_huge_text_is_split_in_parts_at_the_ends_of_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("daemon.engine.llama.chat.prompts._PART_CHARACTERS", 64)
    words = Bytes()
    text = "a line of text\n" * 20 + "x" * 300
    prompt = prompts(Pieces((text, True)), 1000, words).of_conversation(USER, [])
    assert prompt.tokens == [BEGIN, *map(ord, text)]
    assert words.longest == 64
    assert prompts(Pieces(), 1, words).tokens_of(text, begin=True) == [BEGIN, *map(ord, text)]
    assert words.longest == 64


def test_a_session_keeps_its_day() -> None:
    renderer = Pieces(("a", True))
    made = prompts(renderer)
    made._days["old"] = date(2020, 1, 1)
    for session in ("old", "new", "", "old"):
        made.of_conversation(USER, [], {}, session)
    assert [asked.day for asked in renderer.asked] == [date(2020, 1, 1), date.today(), date.today(), date(2020, 1, 1)]


def test_the_gap_is_between_the_texts_and_control_tokens_are_not_read_in_them() -> None:
    made = prompts(Pieces())
    assert made.of_text("a<end>", None).tokens == [BEGIN, *map(ord, "a<end>")]
    assert made.of_text("a", "<end>").tokens == [BEGIN, 300, 97, 301, *map(ord, "<end>"), 302]
    assert made.of_text("", "b").tokens == [BEGIN, 300, 301, 98, 302]
    assert made.of_text("", None).tokens == [BEGIN]
    for overlong in ("a" * 505, "a" * 101 + "\n" + "b" * 500):
        with pytest.raises(ContextOverflow) as caught:
            made.of_text(overlong, param="input")
        assert caught.value.param == "input"


def test_a_model_without_fill_tokens_says_so() -> None:
    words = Bytes()
    words.fill_tokens = None
    with pytest.raises(Unsupported, match="suffix") as caught:
        prompts(Pieces(), words=words).of_text("a", "b")
    assert caught.value.param == "suffix"
    assert prompts(Pieces(), words=words).of_text("a", "").tokens == [BEGIN, 97]


@pytest.mark.parametrize(
    ("kind", "name"), [("image_url", "an image"), ("input_image", "an image"), ("input_audio", "audio"), ("file", "a file")]
)
def test_what_is_no_text_is_refused_with_its_place(kind: str, name: str) -> None:
    message: JSONObject = {"role": "user", "content": [{"type": "text", "text": "Look:"}, {"type": kind}]}
    with pytest.raises(BadRequest, match=rf"messages\[1\]\.content\[1\] is {name}"):
        prompts(Pieces(("a", True))).of_conversation([*USER, message], [])


def test_nothing_to_answer_is_said() -> None:
    with pytest.raises(BadRequest, match="must not be empty"):
        prompts(Pieces()).of_conversation([], [])

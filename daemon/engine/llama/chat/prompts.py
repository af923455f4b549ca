"""Prompts in tokens: of conversations, through the model's chat template; of plain texts; of texts with a gap."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Protocol

from daemon.engine.llama.chat.control_text import Piece
from daemon.engine.llama.chat.template import Conversation, TooLong
from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.formats.families import OURS
from daemon.engine.llama.vocabulary import FillTokens
from daemon.errors import BadRequest, ContextOverflow, Unsupported
from daemon.records import JSON, JSONObject

_END_CHARACTERS = 400  # of a prompt, which tell a parser whether it opened the reasoning
_NO_TEXT = {"image": "an image", "audio": "audio", "video": "a video", "file": "a file", "document": "a document"}
"""By what is in a part's type."""
_SESSIONS = 4096  # whose first day is remembered
_PART_CHARACTERS = 256 << 10
"""Of a text, split at once: some of llama.cpp's splitters go deeper with every character, on the thread's stack."""

STACK_BYTES = 256 << 20
"""What a thread that splits such a part needs, and as much again. Memory is taken only for what is used of it."""


class Words(Protocol):
    """What is needed of a vocabulary."""

    @property
    def longest_piece_bytes(self) -> int: ...

    @property
    def begin_text(self) -> str: ...

    @property
    def defined_texts(self) -> frozenset[str]: ...

    @property
    def fill_tokens(self) -> FillTokens | None: ...

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]: ...


class Renders(Protocol):
    """What is needed of a renderer."""

    @property
    def knows_tools(self) -> bool: ...

    def render(self, conversation: Conversation) -> list[Piece]: ...


@dataclass(frozen=True, slots=True)
class Prompt:
    tokens: list[int]
    end: str
    """Its last characters."""
    format: ToolFormat
    """How the reply will write tool calls and reasoning."""


class Prompts:
    """See the module. Safe to use from several threads."""

    def __init__(self, words: Words, renderer: Renders, own_format: ToolFormat, context_tokens: int) -> None:
        """`own_format`: that of the model's own template."""
        self._words = words
        self._renderer = renderer
        self._own_format = own_format
        self._context_tokens = context_tokens
        self._days: OrderedDict[str, date] = OrderedDict()
        self._lock = threading.Lock()

    def of_conversation(
        self,
        messages: list[JSONObject],
        tools: list[JSONObject],
        values: JSONObject | None = None,
        session: str = "",
        *,
        add_generation_prompt: bool = True,
    ) -> Prompt:
        """Render and split.

        Args:
            values: further variables of the template.
            session: its prompts all know the day that the first one was of, so that they begin alike after midnight too.

        Raises:
            ContextOverflow: it cannot fit the window. Said early: splitting megabytes would hold up other requests.
            BadRequest: there is nothing in it, or what is no text, or the template refuses it.
        """
        if not messages:
            raise BadRequest("messages must not be empty.", param="messages")
        for place, message in enumerate(messages):
            _check_content(message.get("content"), f"messages[{place}].content")
        most = self._context_tokens * self._words.longest_piece_bytes
        self._fits_characters(sum(_least_characters(message) for message in messages))
        day = self._day(session)
        conversation = Conversation(messages, tools, values or {}, day, most, add_generation_prompt)
        try:
            pieces = self._renderer.render(conversation)
        except TooLong as error:
            raise self._overflow(self._least_tokens(error.characters), "at least ", "messages") from error
        format = OURS if tools and not self._renderer.knows_tools else self._own_format
        tokens = self._split(pieces)
        if not tokens:
            raise BadRequest("The conversation renders to an empty prompt.", param="messages")
        return Prompt(tokens, "".join(text for text, _ in pieces[-8:])[-_END_CHARACTERS:], format)

    def of_text(self, text: str, suffix: str | None = None, *, param: str = "prompt") -> Prompt:
        """A text to go on with, or with `suffix` one whose gap is to be filled. Control tokens are not read in either.

        Args:
            param: the request's field that an error names.

        Raises:
            Unsupported: the model has no tokens that mark a gap.
            ContextOverflow: it cannot fit the window.
            BadRequest: there is nothing to begin from.
        """
        self._fits_characters(len(text) + len(suffix or ""), param)
        if not suffix:
            tokens = self._split([(text, False)], param=param)
        else:
            marks = self._words.fill_tokens
            if marks is None:
                raise Unsupported(
                    "This model has no tokens to fill in the middle of a text, so suffix cannot be used.",
                    "Leave suffix out, or serve a model made for code completion.",
                    param="suffix",
                )
            begin = self._words.tokenize("", begin=True)
            tokens = [*begin, marks.prefix, *self._split([(text, False)], begin=False)]
            tokens += [marks.suffix, *self._split([(suffix, False)], begin=False), marks.middle]
        if not tokens:
            raise BadRequest(f"{param} must not be empty.", param=param)
        return Prompt(tokens, text[-_END_CHARACTERS:], self._own_format)

    def tokens_of(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        """The text in tokens, however long it is."""
        tokens: list[int] = []
        for index, part in enumerate(_parts(text)):
            tokens += self._words.tokenize(part, begin=begin and index == 0, special=special)
        return tokens

    def fits(self, wanted: int, words: str = "", param: str = "messages") -> None:
        """Raises ContextOverflow if so many tokens do not fit the window."""
        if wanted > self._context_tokens:
            raise self._overflow(wanted, words, param)

    def _overflow(self, wanted: int, words: str, param: str) -> ContextOverflow:
        return ContextOverflow(
            f"This model's maximum context length is {self._context_tokens} tokens, however you requested {words}{wanted} tokens.",
            "Shorten the conversation, or raise engine.context if the model has a larger window.",
            param=param,
        )

    def _fits_characters(self, characters: int, param: str = "messages") -> None:
        self.fits(self._least_tokens(characters), "at least ", param)

    def _least_tokens(self, characters: int) -> int:
        return math.ceil(characters / self._words.longest_piece_bytes)

    def _split(self, pieces: list[Piece], *, begin: bool = True, param: str = "messages") -> list[int]:
        """The tokens; ends early where they are too many. `begin`: with the begin-of-text token, where the model wants one."""
        self.fits(len(pieces) // 2, "at least ", param)  # every other one is a word of its own
        tokens: list[int] = []
        for index, (text, special) in enumerate(pieces):
            begins = begin and index == 0 and not (special and self._words.begin_text and text.startswith(self._words.begin_text))
            for part in _parts(text):
                self.fits(len(tokens), "at least ", param)
                # A word that was hidden, but that the vocabulary would read as a token in any text, is taken apart.
                cut = 1 if not special and part in self._words.defined_texts else len(part)
                for bit in (part[:cut], part[cut:]) if cut < len(part) else (part,):
                    tokens += self._words.tokenize(bit, begin=begins, special=special)
                    begins = False
                begins = False
        if begin and not pieces:
            tokens = self._words.tokenize("", begin=True)
        return tokens

    def _day(self, session: str) -> date:
        today = date.today()
        if not session:
            return today
        with self._lock:
            day = self._days.setdefault(session, today)
            self._days.move_to_end(session)
            if len(self._days) > _SESSIONS:
                self._days.popitem(last=False)
        return day


def _parts(text: str) -> Iterable[str]:
    """The text in parts that can be split into tokens at once, cut behind the end of a line where there is one."""
    while len(text) > _PART_CHARACTERS:
        cut = text.rfind("\n", _PART_CHARACTERS // 2, _PART_CHARACTERS) + 1 or _PART_CHARACTERS
        yield text[:cut]
        text = text[cut:]
    yield text


def _check_content(content: JSON, place: str) -> None:
    """Raises BadRequest for a part that this model cannot read: an answer as if it had would be worse."""
    for index, part in enumerate(content if isinstance(content, list) else []):
        kind = part.get("type") if isinstance(part, dict) else None
        name = next((name for word, name in _NO_TEXT.items() if isinstance(kind, str) and word in kind), None)
        if name is not None:
            raise BadRequest(f"{place}[{index}] is {name}; this model reads text only.", "Send its content as text.", param="messages")


def _least_characters(message: JSONObject) -> int:
    """Of what surely comes out of the template; some of an assistant's earlier words may not."""
    return 0 if message.get("role") == "assistant" else _characters(message.get("content"))


def _characters(content: JSON) -> int:
    if isinstance(content, str):
        return len(content)
    if isinstance(content, list):
        return sum(_characters(part.get("text")) for part in content if isinstance(part, dict))
    return 0

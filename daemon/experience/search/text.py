"""What of a record can be searched for, and how a person's words become a query that has no syntax to get wrong.

The tokenizer splits at everything that is no letter or digit, and each word of a query is a phrase of what it splits into: so
`snake_case` and `src/lib/a.py` are found as they are, and by each of their parts. Scripts without spaces between words (Chinese,
Japanese) and Korean are indexed letter by letter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from daemon import json_text
from daemon.experience.sessions.keys import text_of
from daemon.records import JSON, Message

TOKENIZER = "unicode61 remove_diacritics 2"
_MOST_CHARACTERS = 200_000  # of one record
_MOST_WORDS, _MOST_WORD_CHARACTERS = 24, 200
_SNIPPET_BEFORE, _SNIPPET_AFTER = 50, 110
_LETTER = re.compile(r"([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f])")
_PIECE = re.compile(r'"([^"]*)"?|([^\s"]+)')


@dataclass(frozen=True, slots=True)
class Query:
    """All of these must be in one turn or report."""

    phrases: tuple[str, ...]
    prefixes: bool = False  # each phrase's last word may go on

    @classmethod
    def of(cls, text: str) -> Query:
        """Words and "phrases"; a word that ends in `*` may go on. Anything is allowed; what holds no letter or digit is passed over."""
        phrases = []
        for match in _PIECE.finditer(text.replace("\0", " ")[:5000]):
            phrase = (match[1] or match[2] or "")[:_MOST_WORD_CHARACTERS].encode("utf-8", "replace").decode()
            if any(letter.isalnum() for letter in phrase):
                phrases.append(phrase if match[1] is None else phrase.replace("*", " "))
        return cls(tuple(phrases[:_MOST_WORDS]))

    def expression(self, scope: str | None) -> str:
        """For FTS5's MATCH."""
        parts = []
        for phrase in self.phrases:
            going_on = self.prefixes or phrase.endswith("*")
            parts.append(f'"{spaced(phrase)}"{"*" if going_on else ""}')
        text = f"text : ({' AND '.join(parts)})"
        return text if scope is None else f'scope : "{scope}" AND {text}'

    def snippet(self, text: str) -> str:
        """One line of `text` around the first of the phrases; its start where none is found as it is written."""
        line = " ".join(text.split())
        first = min((found for phrase in self.phrases if (found := _place(phrase, line)) >= 0), default=0)
        start = max(0, first - _SNIPPET_BEFORE)
        end = first + _SNIPPET_AFTER
        return f"{'…' if start else ''}{line[start:end].strip()}{'…' if end < len(line) else ''}"


def spaced(text: str) -> str:
    """With spaces around the letters of scripts that have none between words."""
    return text if text.isascii() else _LETTER.sub(r" \1 ", text)


def message_text(message: Message) -> str:
    """What a user, a model or a tool said, calls included; nothing for system texts: they are the same in each session."""
    if message.get("role") in ("system", "developer"):
        return ""
    calls = message.get("tool_calls")
    parts = [text_of(message.get("content"))]
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            parts += [str(function.get("name", "")), *_strings(_parsed(function.get("arguments")))]
    return "\n".join(part for part in parts if part)


def joined(texts: Iterable[str]) -> str:
    """The text of one record, as it is indexed."""
    return "\n".join(text for text in texts if text)[:_MOST_CHARACTERS].encode("utf-8", "replace").decode().replace("\0", " ")


def feedback_text(feedback: JSON) -> str:
    """What a report says in words."""
    return joined(_strings(feedback))


def _strings(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _parsed(arguments: JSON) -> JSON:
    """Arguments come as JSON text; its escapes (`\\n`) would spoil the words."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json_text.parse(arguments)
    except ValueError:
        return arguments


def _place(phrase: str, line: str) -> int:
    words = re.findall(r"[^\W_]+", phrase)
    found = re.search(r"[\W_]*".join(map(re.escape, words)), line, re.IGNORECASE)
    return found.start() if found else -1

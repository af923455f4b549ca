"""Keeps a client's text from being read as control tokens.

Control tokens count in the template's own text only: a message that contains `<|im_end|>` stays text. While the template runs, such
words are replaced by marks; afterwards the prompt is cut there, and those pieces are tokenised apart, as plain text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from daemon.records import JSON

_MARK = "\ue0a5{}\ue0a6"  # private-use characters around a number
_MARKED = re.compile(r"(?:\ue0a5|\\ue0a5)(\d+)(?:\ue0a6|\\ue0a6)")  # a template may have escaped them, as JSON

Piece: TypeAlias = tuple[str, bool]
"""A piece of a prompt, and whether control tokens in it count."""


_Tree: TypeAlias = "dict[str, _Tree]"
_LONG = 200  # characters; longer words are too deep for a tree


def pattern(words: tuple[str, ...]) -> re.Pattern[str] | None:
    """Matches any of `words`, the longest first; None without any. Written as a tree, so that a long text costs no try of every word."""
    tree: _Tree = {}
    branches = [re.escape(word) for word in sorted(words, key=len, reverse=True) if len(word) > _LONG]
    for word in words:
        at = tree
        for character in word if len(word) <= _LONG else "":
            at = at.setdefault(character, {})
        if at is not tree:
            at[""] = {}
    if tree:
        branches.append(_written(tree))
    return re.compile("|".join(branches)) if branches else None


def _written(tree: _Tree) -> str:
    """The expression of what may follow; what is a word already is taken only where it cannot go on."""
    branches = [re.escape(character) + _written(below) for character, below in tree.items() if character]
    if not branches:
        return ""
    following = branches[0] if len(branches) == 1 and "" not in tree else f"(?:{'|'.join(branches)})"
    return f"{following}?" if "" in tree else following


@dataclass(slots=True)
class Hidden:
    """The control words of one conversation."""

    controls: re.Pattern[str] | None
    words: list[str]

    def hide(self, value: JSON) -> JSON:
        """A copy of `value` with marks in every text, names of fields too."""
        if isinstance(value, str):
            return self._hide_text(value)
        if isinstance(value, list):
            return [self.hide(item) for item in value]
        if isinstance(value, dict):
            return {self._hide_text(key): self.hide(item) for key, item in value.items()}
        return value

    def reveal(self, prompt: str) -> list[Piece]:
        """A rendered prompt in pieces, none empty."""
        pieces: list[Piece] = []
        at = 0
        for mark in _MARKED.finditer(prompt):
            if (number := int(mark[1])) < len(self.words):
                pieces += [(prompt[at : mark.start()], True), (self.words[number], False)]
                at = mark.end()
        pieces.append((prompt[at:], True))
        return [piece for piece in pieces if piece[0]]

    def _hide_text(self, text: str) -> str:
        text = text.replace("\ue0a5", "\ufffd").replace("\ue0a6", "\ufffd")
        return self.controls.sub(self._mark, text) if self.controls else text

    def _mark(self, match: re.Match[str]) -> str:
        self.words.append(match[0])
        return _MARK.format(len(self.words) - 1)

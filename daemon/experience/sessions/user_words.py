"""What a user's next message says of the reply before it: an objection, the same question again, a mark, thanks.

Conservative: each is told by how the message begins, or by how much of the earlier one it repeats. A message that could be
a new request is taken for one.
"""

from __future__ import annotations

import re

from daemon.experience.sessions.keys import text_of
from daemon.records import Message

_LONGEST = 4000
_RESTATED_CHARACTERS = 400
_RESTATED_SHARE = 0.7
_FEWEST_WORDS = 4
_THANKS_CHARACTERS = 80

_WRAPPED = re.compile(r"\s*<([A-Za-z][\w-]{2,40})(?: [^<>]{0,200})?>.*?</\1>", re.S)  # what agents put before the user's own words
_OBJECTION = re.compile(
    r"(?:"
    r"no(?:pe)?(?:\s*[,.!;:–—-]|\s*$|\s+(?:that|it|this)(?:'s|\s+is|\s+was|\s+isn|\s+does|\s+did)|\s+(?:i|you)\s+(?:said|meant|asked|wanted|need))"
    r"|(?:that(?:'s| is| was)|this is|it(?:'s| is)) (?:not (?:what|right|correct|it\b)|wrong|incorrect|still (?:wrong|broken|failing))"
    r"|(?:wrong|incorrect)(?:\s*[,.!;:]|\s*$|\s+(?:file|function|line|place|answer|approach)\b)|not what i (?:asked|meant|wanted|said)"
    r"|actually,? (?:no\b|that(?:'s| is) (?:not|wrong))|i (?:said|meant|asked for) \S|you (?:forgot|missed|broke|misunderstood|ignored)\b"
    r"|(?:please )?(?:undo|revert) (?:that|this|it|your|the last)\b|(?:it )?still (?:fails|failing|broken|doesn'?t|does not|not|wrong)\b"
    r"|(?:it |that |this )(?:doesn'?t|does not|didn'?t|did not) work\b|don'?t do that"
    # the same in the languages that are written most
    r"|(?:nein|non|nee|não|нет)\s*[,.!;]|falsch\b|das (?:ist|war) (?:falsch|nicht)|das stimmt nicht|c'est (?:faux|pas)"
    r"|(?:está mal|incorrecto|sbagliato|errado|неверно|неправильно)\b|不对|不是这|错了|違います|違う|いいえ|아니(?:요|야|[,.])|틀렸"
    r")",
    re.I,
)
_NO_OBJECTION = re.compile(
    r"no[,.!]?\s+(?:problem|worries|need|rush|hurry|thanks|thank you|doubt|idea|that(?:'s| is) (?:fine|ok|okay|good|great|all|it\b))", re.I
)
_THANKS = re.compile(
    r"(?:(?:ok(?:ay)?|yes|great|perfect|nice|awesome|cool)[,.! ]+)*(?:thanks?\b|thank you|thx\b|perfect\b|great\b|awesome\b|lgtm\b"
    r"|(?:it|that) works|works(?: now| great| fine| perfectly)?\b|well done|good job"
    r"|danke|merci|gracias|grazie|obrigad[oa]|谢谢|ありがとう|감사|спасибо)",
    re.I,
)
_BUT = re.compile(r"\b(?:but|however|except|though|now\s+\w+|next|also|can you|could you|please|aber|mais|pero)\b|\?", re.I)
_MARK = re.compile(r"/(good|bad)(?:\s|$)", re.I)
_WORD = re.compile(r"\w+")


def own_words(message: Message | str) -> str:
    """A user's message, or its text, without the blocks that agents put before it."""
    text = (message if isinstance(message, str) else text_of(message.get("content")))[:_LONGEST]
    place = 0
    while wrapped := _WRAPPED.match(text, place):
        place = wrapped.end()
    return text[place:].strip()


def objects(text: str) -> bool:
    """ "No, …", "that's wrong", "still fails": the reply was not what was wanted."""
    return bool(_OBJECTION.match(text)) and not _NO_OBJECTION.match(text)


def thanks(text: str) -> bool:
    """Thanks and nothing else."""
    return len(text) <= _THANKS_CHARACTERS and bool(_THANKS.match(text)) and not _BUT.search(text)


def mark(text: str) -> str:
    """ "good" or "bad" where the message is such a command, else nothing."""
    found = _MARK.match(text) if text.startswith("/") else None
    return found.group(1).lower() if found else ""


def restates(text: str, earlier: str) -> bool:
    """Whether both ask the same, in other words or in the same ones. Texts that differ in a number ask for different things."""
    if max(len(text), len(earlier)) > _RESTATED_CHARACTERS:
        return False
    first = _parts(text)
    second = _parts(earlier) if len(first) >= _FEWEST_WORDS else first
    if min(len(first), len(second)) < _FEWEST_WORDS or {w for w in first ^ second if any(c.isdigit() for c in w)}:
        return False
    return len(first & second) >= _RESTATED_SHARE * len(first | second)


def edits(text: str, ours: str) -> bool:
    """Whether `text` is our reply with changes of the user's: most words the same, and neither only a piece of the other."""
    one, other = " ".join(text.split()), " ".join(ours.split())
    if min(len(one), len(other)) < 16 or one in other or other in one:
        return False
    first, second = set(_WORD.findall(one.lower())), set(_WORD.findall(other.lower()))
    return 2 * len(first & second) >= len(first | second)


def _parts(text: str) -> set[str]:
    """Words; pairs of characters where a language writes no spaces."""
    words = set(_WORD.findall(text.lower()))
    if len(words) < _FEWEST_WORDS and not text.isascii():
        letters = "".join(_WORD.findall(text))
        return {letters[place : place + 2] for place in range(len(letters) - 1)}
    return words

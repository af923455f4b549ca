"""The text of a reply as it arrives, and the few ways of reading it that formats are written in.

A format reads like its grammar: generators that take literals, JSON and text up to a marker, and that yield None where more text is
needed. Each character is looked at once or a few times, however the text is cut into pieces: what was read is not searched again.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from functools import lru_cache
from typing import TypeAlias, TypeVar

from daemon.engine.llama.formats.json_scan import JSONScanner, with_escapes

T = TypeVar("T")
Steps: TypeAlias = Generator[None, None, T]
"""Yields whenever it needs more text; its value is what was read."""

_SPACE = re.compile(r"\s*")


class Malformed(Exception):
    """What follows is not what the format says.

    Its text is a reason, the end of a sentence that begins with "it"; empty where the text never looked like a call.
    """


class CutOff(Malformed):
    """The reply ended in the middle."""

    def __init__(self) -> None:
        super().__init__("is cut off")


class Markers:
    """Texts to look for, and how much at a text's end may still become one of them."""

    def __init__(self, *texts: str) -> None:
        self.texts = texts
        self._pattern = re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True)))) if texts else None
        self._beginnings = frozenset(text[:size] for text in texts for size in range(1, len(text)))
        self._longest = max((len(text) - 1 for text in texts), default=0)

    def search(self, text: str, start: int) -> re.Match[str] | None:
        """The first of them from `start` on."""
        return self._pattern.search(text, start) if self._pattern else None

    def overlap(self, text: str, start: int) -> int:
        """Length of the longest end of `text`, from `start` on, that is the beginning of a marker."""
        longest = min(len(text) - start, self._longest)
        return next((size for size in range(longest, 0, -1) if text[-size:] in self._beginnings), 0)


@lru_cache(maxsize=256)
def _markers(texts: tuple[str, ...]) -> Markers:
    return Markers(*texts)


class Source:
    """The text that is not read yet, and what was read since `mark`."""

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._read: list[str] = []
        self._wall: Markers | None = None
        self._behind = ""
        self._walled = False
        self._ended = False
        self.remark = ""
        """What the client should know of how something was read."""

    def feed(self, text: str) -> None:
        self._text = self._text[self._at :] + self._in_front(text)
        self._at = 0

    def end(self) -> None:
        """Nothing more will come."""
        self._ended = True
        self._text += self._in_front("")

    def stop_before(self, text: str) -> None:
        """Let nothing be read beyond `text`, until `go_on`: what needs more than stands before it is cut off."""
        self._wall = Markers(text)
        unread, self._text, self._at = self._text[self._at :], "", 0
        self._text = self._in_front(unread)

    def go_on(self) -> None:
        self._wall, self._walled = None, False
        self._text, self._behind = self._text + self._behind, ""

    def _in_front(self, text: str) -> str:
        """What of the text that comes now may be read; the rest is kept behind the wall."""
        if self._wall is None:
            return text
        text, self._behind = self._behind + text, ""
        if not self._walled:
            found = self._wall.search(text, 0)
            self._walled = found is not None
            kept = found.start() if found is not None else len(text) - (0 if self._ended else self._wall.overlap(text, 0))
            text, self._behind = text[:kept], text[kept:]
            return text
        self._behind = text
        return ""

    def mark(self, marker: str = "") -> None:
        """Forget what was read so far: it has been dealt with, all but `marker`, which was read last."""
        self._read = [marker]

    def since_mark(self) -> str:
        return "".join(self._read)

    def unread(self, text: str) -> None:
        """Put back what was read last."""
        if self._text.endswith(text, 0, self._at):
            self._at -= len(text)
        else:
            self._text = text + self._text[self._at :]
            self._at = 0

    @property
    def ended(self) -> bool:
        """Nothing will come that may be read."""
        return self._ended or self._walled

    @property
    def exhausted(self) -> bool:
        """The reply is over, and all of it is read."""
        return self._ended and self._at == len(self._text) and not self._behind

    def more(self) -> Steps[None]:
        """Wait for more text. Raises CutOff if there will be none."""
        if self.ended:
            raise CutOff
        yield

    def scan(self, markers: Markers) -> tuple[str, str]:
        """What is there now up to a marker, and the marker, which is read too; empty where none is there yet.

        What may become a marker stays unread, unless the reply has ended.
        """
        if found := markers.search(self._text, self._at):
            return self._take(found.start()), self._take(found.end())
        kept = 0 if self.ended else markers.overlap(self._text, self._at)
        return self._take(len(self._text) - kept), ""

    def until(self, *texts: str) -> Steps[tuple[str, str]]:
        """Read up to one of `texts`; returns what is before it, and which it is."""
        markers = _markers(texts)
        parts: list[str] = []
        while True:
            text, marker = self.scan(markers)
            parts.append(text)
            if marker:
                return "".join(parts), marker
            yield from self.more()

    def spaces(self) -> Steps[str]:
        """Read white space, perhaps none; stops at the reply's end."""
        parts: list[str] = []
        while True:
            found = _SPACE.match(self._text, self._at)
            parts.append(self._take(found.end() if found is not None else self._at))
            if self._at < len(self._text) or self.ended:
                return "".join(parts)
            yield

    def space(self) -> Steps[None]:
        """Read white space that means nothing."""
        yield from self.spaces()

    def ahead(self, *texts: str) -> Steps[str]:
        """Which of `texts` comes next, without reading it; empty for none of them. None may be the beginning of another."""
        while True:
            for text in texts:
                if self._text.startswith(text, self._at):
                    return text
            rest = self._text[self._at : self._at + max(map(len, texts))]
            if self.ended or not any(text.startswith(rest) for text in texts):
                return ""
            yield

    def maybe(self, *texts: str) -> Steps[str]:
        """Read one of `texts` if it comes next; returns it, or nothing."""
        found = yield from self.ahead(*texts)
        self._take(self._at + len(found))
        return found

    def literal(self, *texts: str) -> Steps[str]:
        """Read one of `texts`, which must come next."""
        found = yield from self.maybe(*texts)
        if not found:
            raise CutOff if self.exhausted else Malformed(f"has no {texts[0].strip()} where one belongs")
        return found

    def character(self) -> Steps[str]:
        """Read one character."""
        while self._at == len(self._text):
            yield from self.more()
        return self._take(self._at + 1)

    def matching(self, pattern: re.Pattern[str]) -> Steps[str]:
        """Read characters, each of which matches `pattern`, as many as come; stops at the reply's end."""
        parts: list[str] = []
        while True:
            start = self._at
            while start < len(self._text) and pattern.match(self._text[start]):
                start += 1
            parts.append(self._take(start))
            if self._at < len(self._text) or self.ended:
                return "".join(parts)
            yield

    def json(self, begun: str = "") -> Steps[str]:
        """Read one JSON object or array; returns its text, see `remark`. Raises Malformed at the first character that does not belong.

        Args:
            begun: its beginning, where that was read already.
        """
        scanner, parts = JSONScanner(), [begun]
        scanner.feed(begun, 0)
        while True:
            parts.append(self._take(scanner.feed(self._text, self._at)))
            if scanner.done:
                text = "".join(parts)
                if not scanner.controls:
                    return text
                self.remark = "Line breaks in the JSON of a tool call were not escaped: they are taken as they stand."
                return with_escapes(text)
            if self._at < len(self._text):
                raise Malformed("is not valid JSON")
            yield from self.more()

    def _take(self, end: int) -> str:
        text = self._text[self._at : end]
        if text:
            self._read.append(text)
            self._at = end
        return text

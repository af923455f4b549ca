"""Where a JSON value ends, in a text that arrives in pieces: strict, in linear time, with nothing kept but what is open."""

from __future__ import annotations

import json
import re

from daemon import json_text

_SPACE = re.compile(r"[ \t\n\r]*")
_PLAIN = re.compile(r'[^"\\]*')
_CONTROL = re.compile(r"[\x00-\x1f]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_WORD = re.compile(r"[-+.0-9A-Za-z]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_HEX = frozenset("0123456789abcdefABCDEF")
_CLOSES = {"{": "}", "[": "]"}


def with_escapes(text: str) -> str:
    """Valid JSON but for line breaks and other control characters that stand in its strings as they are: they become escapes."""
    return _STRING.sub(lambda found: _CONTROL.sub(lambda control: json.dumps(control[0])[1:-1], found[0]), text)


class JSONScanner:
    """Reads one object or array. Feed it text until it is `done` or stops before the end of what it was given.

    `controls`: there are control characters in its strings, which JSON wants escaped. Models that write files forget that.
    """

    def __init__(self) -> None:
        self.done = False
        self.controls = False
        self._open: list[str] = []
        self._wanted = "opening"  # opening, value, first value, key, first key, colon, comma
        self._string = False
        self._escape = 0  # in a string: 0 none, 1 just after \, 2 to 5 hexadecimal digits to come plus one
        self._word: list[str] = []

    def feed(self, text: str, start: int) -> int:
        """Returns up to where `text` belongs to the value: its end while more is needed, else the first character that does not."""
        at = start
        while at < len(text) and not self.done:
            if self._string:
                following = self._in_string(text, at)
            elif self._word:
                following = self._in_word(text, at)
            else:
                following = self._between(text, at)
            if following < 0:
                return at
            at = following
        return at

    def _between(self, text: str, at: int) -> int:
        found = _SPACE.match(text, at)
        if self._wanted != "opening" and found is not None and found.end() > at:
            return found.end()
        character, wanted = text[at], self._wanted
        if character in "{[" and wanted in ("opening", "value", "first value"):
            if len(self._open) >= json_text.MAX_DEPTH:
                return -1
            self._open.append(character)
            self._wanted = "first key" if character == "{" else "first value"
        elif character in "}]" and self._open and character == _CLOSES[self._open[-1]]:
            if wanted not in ("comma", "first key", "first value"):
                return -1
            self._open.pop()
            self._wanted = "comma"
            self.done = not self._open
        elif character == '"' and wanted in ("value", "first value", "key", "first key"):
            self._string = True
            self._wanted = "colon" if wanted.endswith("key") else "comma"
        elif character == ":" and wanted == "colon":
            self._wanted = "value"
        elif character == "," and wanted == "comma":
            self._wanted = "key" if self._open[-1] == "{" else "value"
        elif wanted in ("value", "first value") and character in "-tfn0123456789":
            self._word.append("")
            return at
        else:
            return -1
        return at + 1

    def _in_string(self, text: str, at: int) -> int:
        if self._escape == 0:
            found = _PLAIN.match(text, at)
            if found is not None and found.end() > at:
                self.controls = self.controls or _CONTROL.search(text, at, found.end()) is not None
                return found.end()
            if text[at] == '"':
                self._string = False
            else:
                self._escape = 1
        elif self._escape == 1:
            if text[at] not in '"\\/bfnrtu':
                return -1
            self._escape = 5 if text[at] == "u" else 0
        else:
            if text[at] not in _HEX:
                return -1
            self._escape = self._escape - 1 if self._escape > 2 else 0
        return at + 1

    def _in_word(self, text: str, at: int) -> int:
        found = _WORD.match(text, at)
        end = found.end() if found is not None else at
        self._word.append(text[at:end])
        if end == len(text):
            return end
        word = "".join(self._word)
        self._word.clear()
        if word not in ("true", "false", "null") and not _NUMBER.fullmatch(word):
            return -1
        self._wanted = "comma"
        return end

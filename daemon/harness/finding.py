"""What the guard found at one place of a harness, and the name by which a person says yes to it."""

from __future__ import annotations

import hashlib
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass

from daemon.records import JSONObject

_SPAN_CHARACTERS = 200
_ALLOWED_CONTROLS = "\n\t\r"


@dataclass(frozen=True, slots=True)
class Finding:
    """`line` counts from 1, in the file as it will be, or as it was where something is taken away.

    `span` is the offending text, cut to 200 characters, invisible ones escaped; `sha256` is of all of it.
    """

    path: str
    line: int
    span: str
    reason: str
    executable: bool = False
    """It would run: a yes to findings in general does not cover it."""
    sha256: str = ""

    @classmethod
    def of(cls, path: str, line: int, whole: str, reason: str, *, executable: bool = False, within: str = "") -> Finding:
        """`whole`: all of the offending text. `within`: what it stands in, where it means nothing without that."""
        digest = hashlib.sha256((within or whole).encode(errors="replace")).hexdigest()
        return cls(path, line, shown(whole), reason, executable, digest)


class Lines:
    """The lines of a text, looked up quickly."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [index for index, character in enumerate(text) if character == "\n"]

    def number(self, index: int) -> int:
        """From 1."""
        return bisect_left(self._ends, index) + 1

    def around(self, start: int, end: int) -> str:
        """The whole lines that hold the characters from `start` to before `end`."""
        first, last = bisect_left(self._ends, start), bisect_left(self._ends, max(start, end - 1))
        begin = self._ends[first - 1] + 1 if first else 0
        return self._text[begin : self._ends[last] if last < len(self._ends) else None]


def finding_id(finding: Finding) -> str:
    """The same for the same text at the same place, and for no other."""
    whole = "\0".join((finding.path, str(finding.line), finding.span, finding.reason, finding.sha256))
    return hashlib.sha256(whole.encode(errors="replace")).hexdigest()[:16]


def finding_view(finding: Finding) -> JSONObject:
    return {
        "id": finding_id(finding),
        "path": finding.path,
        "line": finding.line,
        "span": finding.span,
        "reason": finding.reason,
        "executable": finding.executable,
    }


def shown(span: str) -> str:
    cut = span.strip()[:_SPAN_CHARACTERS]
    return "".join(f"\\u{{{ord(one):x}}}" if is_invisible(one) else one for one in cut)


def is_invisible(character: str) -> bool:
    if character in _ALLOWED_CONTROLS:
        return False
    code = ord(character)
    return (
        unicodedata.category(character) in ("Cf", "Cc", "Co", "Zl", "Zp")
        or code in (0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0, 0x1D159)
        or 0x180B <= code <= 0x180F
        or 0xFE00 <= code <= 0xFE0D  # variation selectors beyond those of emoji carry hidden bytes
        or 0xE0100 <= code <= 0xE01EF
    )

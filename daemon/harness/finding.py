"""What the guard found at one place of a harness, and the name by which a person says yes to it."""

from __future__ import annotations

import hashlib
import unicodedata
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
    def of(cls, path: str, line: int, whole: str, reason: str, *, executable: bool = False) -> Finding:
        """`whole`: all of the offending text."""
        return cls(path, line, shown(whole), reason, executable, hashlib.sha256(whole.encode(errors="replace")).hexdigest())


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
        or code in (0x115F, 0x1160, 0x3164, 0xFFA0, 0x2800)
        or 0xE0100 <= code <= 0xE01EF  # variation selectors beyond those of emoji carry hidden bytes
    )

"""Patterns and formats of JSON Schema as llguidance must be told them, so that what it allows is what validators accept."""

from __future__ import annotations

import re

from daemon.engine.llama.structure.schema_values import refused

_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_LEAP_YEAR = r"(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DAY = r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
_DATE = rf"(?:{_YEAR}-{_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

_MAILBOX = r"[A-Za-z0-9_+-]+(?:\.[A-Za-z0-9_+-]+)*"
_DOMAIN = r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z]{2,24}"

PATTERNS = {
    "date": f"^{_DATE}$",
    "time": f"^{_TIME}$",
    "date-time": f"^{_DATE}T{_TIME}$",
    "ipv4": rf"^{_OCTET}(?:\.{_OCTET}){{3}}$",
    "email": f"^{_MAILBOX}@{_DOMAIN}$",
}
"""Formats written out: llguidance's own dates know no leap years, and its addresses are more than most validators take."""

FORMATS = frozenset({"duration", "hostname", "ipv6", "uuid", "uri"})
"""Formats that llguidance knows."""

REFUSED_FORMATS = frozenset(
    {"idn-email", "idn-hostname", "uri-reference", "iri", "iri-reference", "uri-template", "json-pointer", "relative-json-pointer", "regex"}
)
"""Formats that JSON Schema defines, but no grammar of ours. What it does not define (`int32`, `binary`) means nothing to a validator."""

_NO_LINE_END = r"[^\n\r\u2028\u2029]"
_SHORT = {r"\W": r"\t\n\f\r -/:-@\[-\^`{-~", r"\D": r"\P{Nd}"}  # what both ECMA's and Unicode's reading of them take
_PIECE = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\c.|\\.|\[\^|--|.", re.DOTALL)
_SET_SIGNS = "[&~"  # in a class: nothing particular in JSON Schema's patterns, set operations in Rust's
_UNNAMED = r"\x00-\x07\x0b\x0e-\x1f"  # control characters for which JSON has no short escape


def has_unnamed(text: str) -> bool:
    """Whether a text has control characters that JSON can only write by number, which our grammars never do."""
    return bool(re.search(f"[{_UNNAMED}]", text))


def translated(pattern: str, path: str) -> str:
    """A pattern of JSON Schema (ECMA 262) in the Rust syntax that llguidance reads. What cannot be said is left for it to refuse.

    A class that llguidance sees cover all control characters gets quote and backslash added by it, so a class of what is *not*
    in it is kept from covering them all.

    Raises:
        BadRequest: names `path`.
    """
    out: list[str] = []
    opening = ""  # of the class that we are in
    empty = False  # nothing is in it yet
    for piece in _PIECE.findall(pattern):
        if opening != "[^" and _is_unnamed(piece):
            raise refused(path, "has a control character, which cannot be expressed as a grammar")
        if not opening:
            opening, empty = (piece, True) if piece[0] == "[" else ("", False)
            out.append(_NO_LINE_END if piece == "." else f"[{_SHORT[piece]}]" if piece in _SHORT else piece)
        elif piece == "]":
            if empty:
                raise refused(path, "has an empty class")
            out.append(_UNNAMED + "]" if opening == "[^" else "]")
            opening = ""
        elif piece == "--":
            raise refused(path, "has -- in a class; put the hyphen first or last, or write \\-")
        elif opening == "[" and piece in _SHORT:
            out.append(_SHORT[piece])
            empty = False
        else:
            out.append("".join("\\" + sign if sign in _SET_SIGNS else sign for sign in piece) if piece[0] != "\\" else piece)
            empty = False
    return "".join(out)


def _is_unnamed(piece: str) -> bool:
    if piece[:2] in ("\\x", "\\u") and len(piece) > 2:
        return has_unnamed(chr(int(piece[2:], 16)))
    return piece[:2] in ("\\c", "\\0", "\\v") or has_unnamed(piece)

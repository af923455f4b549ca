"""Patterns that a user adds. They run over every text of every request, so only such are taken as cannot become slow.

Python's regular expressions backtrack: `(a+)+b` takes exponential time, `.*x.*y` quadratic. Taken is what has bounded
repeats that do not nest, with a bounded number of ways to match, and no look-around or back-reference.
"""

from __future__ import annotations

import re
import re._constants as constants  # type: ignore[import-not-found]  # what `re` itself parses a pattern into; stable since Python 3.11
import re._parser as parser  # type: ignore[import-not-found]
from collections.abc import Iterable, Mapping
from typing import TypeAlias, cast

from daemon.errors import ConfigError
from daemon.redaction.rules import Rule

MAX_PATTERNS = 32
MAX_CHARACTERS = 300
_MAX_WAYS = 4096
_Items: TypeAlias = "Iterable[tuple[object, object]]"
"""What `re` parses a pattern into: operation and operands."""
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


def rules_of(patterns: Mapping[str, str]) -> tuple[Rule, ...]:
    """
    Raises:
        ConfigError: a name or pattern that is not taken, with why.
    """
    if len(patterns) > MAX_PATTERNS:
        raise ConfigError(f"storage.redact.patterns has {len(patterns)} entries; {MAX_PATTERNS} are the most.", "Join some with |.")
    return tuple(_rule(name, text) for name, text in patterns.items())


def _rule(name: str, text: str) -> Rule:
    where = f"storage.redact.patterns.{name[:40]}"
    if not _NAME.fullmatch(name):
        raise ConfigError(f"{where}: a name has a-z, 0-9 and hyphens.", "It stands in the text: [redacted:name].")
    if len(text) > MAX_CHARACTERS:
        raise ConfigError(f"{where} is longer than {MAX_CHARACTERS} characters.", "Split it.")
    try:
        parsed = parser.parse(text)
        pattern = re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise ConfigError(f"{where} is no regular expression: {error}.", "It is read as Python's `re` reads it.") from error
    fault = _fault(parsed, inside=False) or (
        "it matches an empty text"
        if pattern.match("") is not None
        else "it can match in too many ways"
        if _ways(parsed) > _MAX_WAYS
        else ""
    )
    if fault:
        raise ConfigError(f"{where} is not taken: {fault}.", "Bound each repeat, such as [A-Z0-9]{20,40}, and nest none.")
    if pattern.search("[redacted:") or pattern.search(f"redacted:{name}]"):
        raise ConfigError(f"{where} would match what it leaves behind, [redacted:{name}].", "Make it narrower.")
    return Rule(name, (), pattern)


def _fault(items: _Items, *, inside: bool) -> str:
    """Why the pattern could be slow; empty: it cannot."""
    for code, value in items:
        if code in (constants.ASSERT, constants.ASSERT_NOT):
            return "it looks ahead or behind"
        if code in (constants.GROUPREF, constants.GROUPREF_EXISTS):
            return "it refers back to a group"
        if code in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            _, most, inner = cast("tuple[int, int, _Items]", value)
            if most == constants.MAXREPEAT or most > 1024:
                return "a repeat has no bound (* or +), or one above 1024"
            if inside and most > 1:
                return "a repeat stands inside a repeat"
            if fault := _fault(inner, inside=most > 1 or inside):
                return fault
        elif fault := next((fault for part in _parts(code, value) if (fault := _fault(part, inside=inside))), ""):
            return fault
    return ""


def _ways(items: _Items) -> int:
    """An upper bound on how many ways there are to match from one place."""
    ways = 1
    for code, value in items:
        if code in (constants.MAX_REPEAT, constants.MIN_REPEAT, constants.POSSESSIVE_REPEAT):
            least, most, inner = cast("tuple[int, int, _Items]", value)
            ways *= (most - least + 1) * (_ways(inner) if most <= 1 else max(1, _ways(inner)) ** min(most, 8))
        elif code is constants.BRANCH:
            ways *= sum(_ways(part) for part in _parts(code, value))
        else:
            for part in _parts(code, value):
                ways *= _ways(part)
        if ways > _MAX_WAYS:
            return ways
    return ways


def _parts(code: object, value: object) -> list[_Items]:
    """The patterns inside one element."""
    if code is constants.SUBPATTERN:
        return [cast("tuple[object, object, object, _Items]", value)[3]]
    if code is constants.BRANCH:
        return list(cast("tuple[object, list[_Items]]", value)[1])
    if code is constants.ATOMIC_GROUP:
        return [cast("_Items", value)]
    return []

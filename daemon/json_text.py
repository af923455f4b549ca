"""Reading JSON that somebody else wrote: strict, and bounded in nesting, so that whatever walks through the value later may recurse."""

from __future__ import annotations

import json
import math
import sys

import orjson

from daemon.records import JSON

MAX_DEPTH = 100
"""Arrays and objects inside one another. Tool schemas need about twenty."""
_LONGEST = 2.0**63


class _NoNumber(ValueError):
    """What is written as a number, and is none that can be read."""


def parse(text: str | bytes) -> JSON:
    """The value that `text` holds.

    Raises:
        ValueError: no JSON, a number that no double holds (NaN and infinities too), or nested deeper than `MAX_DEPTH`. A
            `json.JSONDecodeError` knows the place.
    """
    try:
        value: JSON = orjson.loads(text)
    except orjson.JSONDecodeError:  # half a character is fine, and the careful reader says what is wrong more precisely
        return _bounded(_parse_carefully(text))
    try:
        return _bounded(value, exact=True)
    except _Rounded:
        return _bounded(_parse_carefully(text))


class _Rounded(Exception):
    """An integer of more than 64 bits has become a float."""


def _parse_carefully(text: str | bytes) -> JSON:
    try:
        value: JSON = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except (json.JSONDecodeError, UnicodeDecodeError, _NoNumber):
        raise
    except ValueError:  # from `int`, which would name a setting of Python
        raise _NoNumber(f"a number has more than {sys.get_int_max_str_digits()} digits") from None
    return value


def _bounded(value: JSON, *, exact: bool = False) -> JSON:
    """`value`, unless it is nested too deeply. With `exact`, a number that may have been a long integer raises `_Rounded`."""
    level: list[JSON] = [value]
    for _ in range(MAX_DEPTH):
        inner: list[JSON] = []
        for child in level:
            if type(child) is str:
                continue  # most are
            if isinstance(child, dict):
                inner += child.values()
            elif isinstance(child, list):
                inner += child
            elif exact and type(child) is float and abs(child) >= _LONGEST:
                raise _Rounded
        if not inner:
            return value
        level = inner
    if any([isinstance(child, list | dict) for child in level]):
        raise _too_deep()
    if exact and any([type(child) is float and abs(child) >= _LONGEST for child in level]):
        raise _Rounded
    return value


def _too_deep() -> ValueError:
    return ValueError(f"nested deeper than {MAX_DEPTH} levels")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _NoNumber(f"{text[:40]} is too large a number")
    return number


def _refuse(name: str) -> JSON:
    raise _NoNumber(f"{name} is no JSON number")


def canonical(value: JSON) -> str:
    """The one text that equal values have, for comparing and hashing."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"))

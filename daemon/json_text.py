"""Reading JSON that somebody else wrote: strict, and bounded in nesting, so that whatever walks through the value later may recurse."""

from __future__ import annotations

import json
import math
import sys

from daemon.records import JSON

MAX_DEPTH = 100
"""Arrays and objects inside one another. Tool schemas need about twenty."""


class _NoNumber(ValueError):
    """What is written as a number, and is none that can be read."""


def parse(text: str | bytes) -> JSON:
    """The value that `text` holds.

    Raises:
        ValueError: no JSON, a number that no double holds (NaN and infinities too), or nested deeper than `MAX_DEPTH`. A
            `json.JSONDecodeError` knows the place.
    """
    try:
        value: JSON = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except RecursionError:
        raise _too_deep() from None
    except (json.JSONDecodeError, UnicodeDecodeError, _NoNumber):
        raise
    except ValueError:  # from `int`, which would name a setting of Python
        raise _NoNumber(f"a number has more than {sys.get_int_max_str_digits()} digits") from None
    if _is_deeper(value):
        raise _too_deep()
    return value


def _is_deeper(value: JSON) -> bool:
    level = [value] if isinstance(value, list | dict) else []
    for _ in range(MAX_DEPTH):
        inside = [child for item in level for child in (item.values() if isinstance(item, dict) else item)]
        level = [child for child in inside if isinstance(child, list | dict)]
        if not level:
            return False
    return True


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

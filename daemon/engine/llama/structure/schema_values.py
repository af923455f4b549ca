"""The plain values in a JSON schema: types, constants, counts and bounds, checked."""

from __future__ import annotations

import re
from decimal import Decimal

from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject

LONGEST_TEXT = 1 << 14  # characters of a name, a constant or a pattern: a grammar takes such a text in one go
_TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
EXACT = 2**53 - 1
"""Whole numbers up to this, and no others, are the same in every JSON reader."""
_MOST_COUNT = 10**6
_LARGEST_STEP = 4_000
_DEEPEST = 32  # levels within a constant


def refused(path: str, reason: str) -> BadRequest:
    """The error of a part that is wrong or cannot be expressed."""
    shown = path if len(path) <= 300 else f"{path[:300]}…"
    text = reason if len(reason) <= 500 else f"{reason[:500]}…"
    return BadRequest(f"{shown} {text}.", "Change it, or leave it out and check the reply yourself.", param=shown)


def types(schema: JSONObject, path: str) -> list[JSON]:
    """The types that a schema names, or that its keywords mean; empty: any."""
    named = schema.get("type")
    if named is None:
        if schema.keys() & {"enum", "const"}:
            return []
        return ["object"] if "properties" in schema else ["array"] if schema.keys() & {"items", "prefixItems"} else []
    kinds = named if isinstance(named, list) else [named]
    if not kinds or any(kind not in _TYPES for kind in kinds):
        raise refused(f"{path}.type", f"must be one or several of {', '.join(_TYPES)}")
    return list(dict.fromkeys(str(kind) for kind in kinds))


def deeper_than(value: JSON, levels: int) -> bool:
    """Whether lists and objects are nested deeper; without recursion."""
    row = [value]
    for _ in range(levels):
        row = [
            inner for outer in row for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
        ]
        if not row:
            return False
    return True


def constant(value: JSON, path: str, level: int = 0) -> JSON:
    """A value that must come as it is."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        raise refused(path, f"is a text of {len(value)} characters; {LONGEST_TEXT} are the most")
    if isinstance(value, str) and re.search("[\\x00-\\x07\\x0b\\x0e-\\x1f\\x7f\\ud800-\\udfff]", value):
        raise refused(path, "has a control character or half of a character, which a grammar cannot hold")
    if isinstance(value, int) and abs(value) > EXACT:
        raise refused(path, "is a whole number of more than 53 bits, which a grammar cannot hold exactly")
    if level > _DEEPEST:
        raise refused(path, f"is nested more than {_DEEPEST} levels deep")
    if isinstance(value, list):
        return [constant(each, f"{path}.{index}", level + 1) for index, each in enumerate(value)]
    if isinstance(value, dict):
        return {constant_name(name, path): constant(each, f"{path}.{name}", level + 1) for name, each in value.items()}
    return value


def constant_name(name: str, path: str) -> str:
    constant(name, f"{path}.{name}")
    return name


def names(value: JSON, path: str) -> list[str]:
    """A list of texts, each once."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise refused(path, "must be a list of texts")
    found = dict.fromkeys(str(name) for name in value)
    for name in found:
        constant(name, path)
    return list(found)


def count(value: JSON, path: str, *, least: bool) -> int:
    """A number of things; a large maximum (not `least`) is no limit in practice."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    if isinstance(whole, bool) or not isinstance(whole, int) or whole < 0:
        raise refused(path, "must be a whole number, 0 or more")
    if whole > _MOST_COUNT and least:
        raise refused(path, f"may be at most {_MOST_COUNT}")
    return min(whole, _MOST_COUNT)


def bounds(schema: JSONObject, path: str) -> JSONObject:
    """The limits of numbers."""
    out: JSONObject = {}
    for side, strict in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        limit, beyond = schema.get(side), schema.get(strict)
        if beyond is True:  # draft 4: the other limit is not part of the range
            limit, beyond = None, limit
        for name, value in ((side, limit), (strict, beyond)):
            if value is not None and value is not False:
                out[name] = _limit(value, f"{path}.{name}", 1 if side == "maximum" else -1)
    if (step := schema.get("multipleOf")) is not None:
        out["multipleOf"] = _step(step, f"{path}.multipleOf")
    return out


def _step(value: JSON, path: str) -> float:
    """What numbers must be a multiple of. A grammar has a state for each remainder, in units of the last decimal."""
    number = _number(value, path)
    digits = int("".join(map(str, Decimal(str(number)).normalize().as_tuple().digits)))
    whole = digits if number < 1 else max(digits, number)
    if not number > 0 or whole > _LARGEST_STEP:
        raise refused(path, f"must be more than 0, and with at most {_LARGEST_STEP} of its smallest units, to be expressed as a grammar")
    return number


def _limit(value: JSON, path: str, side: int) -> float:
    """A limit, moved in where it is so far out that only what cannot be held exactly lies between."""
    number = _number(value, path)
    if number * side > EXACT:
        return EXACT * side
    if abs(number) > EXACT:
        raise refused(path, "leaves only numbers of more than 53 bits, which a grammar cannot hold exactly")
    return number


def _number(value: JSON, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise refused(path, "must be a number")
    return value

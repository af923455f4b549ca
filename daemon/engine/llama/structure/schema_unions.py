"""Whether no value fits two of the schemas in a `oneOf`. Then it means what `anyOf` means, which a grammar can say."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations

from daemon.records import JSON, JSONObject

_MOST = 200  # schemas that are compared, each with each
_DEEPEST = 16  # references that lead to references


def exclude_each_other(schemas: list[JSON], target: Callable[[JSON], JSON]) -> bool:
    """True only if it is certain; `target` finds what a `$ref` points to."""
    if len(schemas) > _MOST:
        return False
    resolved = [_resolved(schema, target) for schema in schemas]
    return all(_apart(one, other, target) for one, other in combinations(resolved, 2))


def _resolved(schema: JSON, target: Callable[[JSON], JSON]) -> JSONObject:
    """The object behind references; {} where nothing is known."""
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict):
            return {}
        if "$ref" not in schema:
            return schema
        schema = target(schema["$ref"])
    return {}


def _apart(one: JSONObject, other: JSONObject, target: Callable[[JSON], JSON]) -> bool:
    mine, theirs = _types(one), _types(other)
    if mine and theirs and not mine & theirs:
        return True
    ours, others = _values(one), _values(other)
    if ours is not None and others is not None:
        return not ours & others
    if mine != {"object"} or theirs != {"object"}:
        return False
    left, right = one.get("properties"), other.get("properties")
    if not isinstance(left, dict) or not isinstance(right, dict):
        return False
    for name in _required(one) & _required(other) & left.keys() & right.keys():
        ours, others = _values(_resolved(left[name], target)), _values(_resolved(right[name], target))
        if ours is not None and others is not None and not ours & others:
            return True
    return False


def _types(schema: JSONObject) -> set[str]:
    """JSON's kinds of value, integers among the numbers; empty: any."""
    named = schema.get("type")
    kinds = named if isinstance(named, list) else [named] if named is not None else []
    return {"number" if kind == "integer" else str(kind) for kind in kinds}


def _values(schema: JSONObject) -> set[str] | None:
    """The constants that are allowed, as text; None: others too."""
    listed = [schema["const"]] if "const" in schema else schema.get("enum")
    if not isinstance(listed, list) or any(isinstance(value, (float, list, dict)) for value in listed):
        return None  # 1.0 is 1, and {"a": 1} is {"a": 1.0}
    return {json.dumps(value) for value in listed}


def _required(schema: JSONObject) -> set[str]:
    needed = schema.get("required")
    return {name for name in needed if isinstance(name, str)} if isinstance(needed, list) else set()

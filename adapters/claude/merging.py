"""JSON settings of several writers in one file: laid over one another, taken out again, and what is left of them.

Objects are merged key by key and lists item by item, so that each writer's hooks and permissions stand beside the others'.
"""

from __future__ import annotations

from daemon.records import JSON, JSONObject


def merged(below: JSONObject, above: JSONObject) -> JSONObject:
    """`above` over `below`: of two plain values that of `above`."""
    result = dict(below)
    for name, value in above.items():
        result[name] = _over(below[name], value) if name in below else value
    return result


def without(there: JSONObject, taken: JSONObject) -> JSONObject:
    """`there` without what `taken` put in and nobody changed since; an object or list that is empty then goes too."""
    result: JSONObject = {}
    for name, value in there.items():
        if name not in taken:
            result[name] = value
            continue
        given = taken[name]
        if value == given:
            continue
        rest: JSON = value
        if isinstance(value, dict) and isinstance(given, dict):
            rest = without(value, given)
        elif isinstance(value, list) and isinstance(given, list):
            rest = [one for one in value if one not in given]
        if rest not in ({}, []) or rest == value:
            result[name] = rest
    return result


def still(wanted: JSONObject, there: JSONObject, own: JSONObject) -> JSONObject:
    """What `there` now says of what `wanted` set. A plain value that `own` sets as well is as wanted, whatever stands there."""
    result: JSONObject = {}
    for name, value in wanted.items():
        if isinstance(value, dict) and isinstance(there.get(name, {}), dict):
            inner, ours = there.get(name), own.get(name)
            if isinstance(inner, dict):
                result[name] = still(value, inner, ours if isinstance(ours, dict) else {})
        elif name in own and not isinstance(value, list):
            result[name] = value
        elif name in there:
            now = there[name]
            result[name] = [one for one in value if one in now] if isinstance(value, list) and isinstance(now, list) else now
    return result


def _over(below: JSON, above: JSON) -> JSON:
    if isinstance(below, dict) and isinstance(above, dict):
        return merged(below, above)
    if isinstance(below, list) and isinstance(above, list):
        return [*below, *(one for one in above if one not in below)]
    return above

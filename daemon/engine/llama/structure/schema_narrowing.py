"""Where a schema leaves open what is seldom meant, the reply is held to less than it allows, which still validates.

- Properties that it does not name are written only if it says `additionalProperties`, or names none. So with items after `prefixItems`.
- `properties` without a `type` means an object, `items` an array (see `schema_values.types`).
- Numbers without limits keep within the 53 bits that every JSON reader holds exactly, and have no exponent.
"""

from __future__ import annotations

from collections.abc import Iterator

from daemon.engine.llama.structure.schema_values import EXACT
from daemon.records import JSON, JSONObject

_ANY = "#/$defs/any"
_WITHIN: JSONObject = {"minimum": -EXACT, "maximum": EXACT}
ANYTHING: JSONObject = {
    "anyOf": [
        {"type": ["null", "boolean", "string"]},
        {"type": "number", **_WITHIN},
        {"type": "array", "items": {"$ref": _ANY}},
        {"type": "object", "additionalProperties": {"$ref": _ANY}},
    ]
}
"""The definition `any`, which every narrowed schema may refer to."""


def narrowed(schema: JSONObject, kinds: list[JSON]) -> JSONObject:
    """A prepared schema that applies alone, without `enum`, `const` or others in its place. `kinds`: its types; empty: any."""
    if not schema:
        return {"$ref": _ANY}
    out = dict(schema)
    if not kinds or "array" in kinds:
        first, least = schema.get("prefixItems", []), schema.get("minItems", 0)
        full = isinstance(first, list) and bool(first) and isinstance(least, int) and least <= len(first)
        out.setdefault("items", False if full else {"$ref": _ANY})
    if not kinds or "object" in kinds:
        named, needed = schema.get("properties", {}), schema.get("required", [])
        names_some = bool(schema.keys() & {"properties", "patternProperties"})
        names_all = isinstance(named, dict) and isinstance(needed, list) and named.keys() >= set(map(str, needed))
        out.setdefault("additionalProperties", False if names_some and names_all else {"$ref": _ANY})
    if not kinds or {"integer", "number"} & set(map(str, kinds)):
        low = [value for name in ("minimum", "exclusiveMinimum") if isinstance(value := schema.get(name), (int, float))]
        high = [value for name in ("maximum", "exclusiveMaximum") if isinstance(value := schema.get(name), (int, float))]
        if not low and all(value > -EXACT for value in high):
            out["minimum"] = -EXACT
        if not high and all(value < EXACT for value in low):
            out["maximum"] = EXACT
    return out


def joined(schemas: Iterator[JSONObject]) -> JSONObject:
    """A further schema for values that several schemas hold for: numbers within limits, and no properties but those that one names.

    Args:
        schemas: all of them, as they came.
    """
    named: dict[str, JSON] = {}
    needed: set[str] = set()
    for schema in schemas:
        properties, required = schema.get("properties"), schema.get("required")
        named.update(dict.fromkeys(properties if isinstance(properties, dict) else (), True))
        needed.update(map(str, required if isinstance(required, list) else ()))
        if schema.keys() & {"additionalProperties", "patternProperties", "propertyNames"}:
            return _WITHIN
    return {**_WITHIN, "properties": named, "additionalProperties": False} if named and needed <= named.keys() else _WITHIN

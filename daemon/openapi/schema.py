"""JSON schemas in few words: what OpenAPI 3.1 uses for bodies, answers and parameters."""

from __future__ import annotations

from daemon.records import JSON, JSONObject

ANY: JSONObject = {}
TEXT: JSONObject = {"type": "string"}
NUMBER: JSONObject = {"type": "number"}
INTEGER: JSONObject = {"type": "integer"}
BOOLEAN: JSONObject = {"type": "boolean"}
OBJECT: JSONObject = {"type": "object"}
TIME: JSONObject = {"type": "number", "description": "Seconds since the epoch."}


def ref(name: str) -> JSONObject:
    return {"$ref": f"#/components/schemas/{name}"}


def array(items: JSONObject, *, most: int | None = None, least: int | None = None) -> JSONObject:
    found: JSONObject = {"type": "array", "items": items}
    if most is not None:
        found["maxItems"] = most
    if least is not None:
        found["minItems"] = least
    return found


def nullable(schema: JSONObject) -> JSONObject:
    """`schema`, or null."""
    kind = schema.get("type")
    if isinstance(kind, str) and "enum" not in schema:
        return {**schema, "type": [kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def either(*schemas: JSONObject) -> JSONObject:
    choices: list[JSON] = list(schemas)
    return {"anyOf": choices}


def text(limit: int | None = None, *, least: int = 0) -> JSONObject:
    """A text of `least` to `limit` characters."""
    found: JSONObject = {"type": "string"}
    if least:
        found["minLength"] = least
    if limit is not None:
        found["maxLength"] = limit
    return found


def one_of(*values: str) -> JSONObject:
    choices: list[JSON] = list(values)
    return {"type": "string", "enum": choices}


def integer(low: int, high: int | None = None) -> JSONObject:
    found: JSONObject = {"type": "integer", "minimum": low}
    if high is not None:
        found["maximum"] = high
    return found


def number(low: float, high: float) -> JSONObject:
    return {"type": "number", "minimum": low, "maximum": high}


def obj(required: dict[str, JSONObject], optional: dict[str, JSONObject] | None = None, about: str = "") -> JSONObject:
    """An object. Further fields may come: clients ignore what they do not know, and so does Reef."""
    properties: JSONObject = {**required, **(optional or {})}
    names: list[JSON] = list(required)
    found: JSONObject = {"type": "object", "properties": properties}
    if names:
        found["required"] = names
    if about:
        found["description"] = about
    return found


def optionals(fields: dict[str, JSONObject]) -> dict[str, JSONObject]:
    """Fields of a request for which null is the same as absent."""
    return {name: nullable(schema) for name, schema in fields.items()}

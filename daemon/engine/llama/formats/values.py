"""Arguments that a model writes as bare text: what they are is in the tool's schema."""

from __future__ import annotations

import json

from daemon import json_text
from daemon.engine.llama.formats.python_call import json_of_literal
from daemon.records import JSON, JSONObject

_ALL = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})
_WORDS = {"true": "true", "false": "false", "null": "null", "none": "null"}
_DEPTH = 8
"""References and alternatives inside one another that are followed."""


def property_schema(schema: JSONObject, name: str, root: JSONObject) -> JSONObject:
    """The schema of one argument, that of what it refers to in `root`; empty where the tool does not speak of it."""
    properties = schema.get("properties")
    found = properties.get(name) if isinstance(properties, dict) else None
    return dereferenced(found, root) if isinstance(found, dict) else {}


def dereferenced(schema: JSONObject, root: JSONObject) -> JSONObject:
    """What a schema that is a reference refers to, with what stands beside the reference; any other as it is."""
    for _ in range(_DEPTH):
        reference = schema.get("$ref")
        found = _resolved(reference, root) if isinstance(reference, str) else None
        if not isinstance(found, dict):
            return schema
        beside = {key: value for key, value in schema.items() if key != "$ref"}
        schema = {**found, **beside}
    return schema


def required_of(schema: JSONObject) -> frozenset[str]:
    """The arguments that must be there."""
    required = schema.get("required")
    return frozenset(key for key in required if isinstance(key, str)) if isinstance(required, list) else frozenset()


def with_shared(schema: JSONObject, root: JSONObject) -> JSONObject:
    """A part of the schema `root`, with the definitions that it may refer to, and how its JSON is to be written."""
    shared: JSONObject = {key: root[key] for key in ("x-guidance", "$defs", "definitions") if key in root}
    return {**shared, **schema}


def types_of(schema: JSON, root: JSONObject, depth: int = _DEPTH) -> frozenset[str]:
    """The JSON types that a schema allows, as far as its types, values, alternatives and references say; all where they do not."""
    if not isinstance(schema, dict) or depth == 0:
        return _ALL
    allowed = _ALL
    named = schema.get("type")
    if named == "number":
        allowed &= {"number", "integer"}
    elif isinstance(named, str):
        allowed &= {named}
    elif isinstance(named, list):
        allowed &= {name for name in named if isinstance(name, str)} | ({"integer"} if "number" in named else set())
    if isinstance(values := schema.get("enum"), list):
        allowed &= {_type_of(value) for value in values}
    if "const" in schema:
        allowed &= {_type_of(schema["const"])}
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(key), list) and choices:
            allowed &= frozenset[str]().union(*(types_of(choice, root, depth - 1) for choice in choices))
    for part in _listed(schema.get("allOf")):
        allowed &= types_of(part, root, depth - 1)
    if isinstance(reference := schema.get("$ref"), str):
        allowed &= types_of(_resolved(reference, root), root, depth - 1)
    return allowed or _ALL


def is_free(schema: JSONObject, root: JSONObject) -> bool:
    """Whether anything at all is allowed, as far as one looks: nothing is said, or a choice of all types."""
    schema = dereferenced(schema, root)
    return not schema or (schema.keys() == {"anyOf"} and types_of(schema, root) == _ALL)


def json_of_text(text: str, allowed: frozenset[str]) -> str:
    """The JSON text of an argument that was written bare.

    Where a string is allowed and nothing else, it is the text itself. Where no string is allowed, it is read as JSON, or Python's
    word for true, false and null; what is neither is handed on as a string: the tool will say what it thinks of it. Where nothing is
    known, JSON is taken for JSON and all else for a string.

    Python's way of writing lists and objects is read too: templates that put values in as text show it to the model.
    """
    stripped = text.strip()
    if "string" not in allowed or allowed == _ALL or (stripped == "null" and "null" in allowed):
        if allowed != _ALL and stripped.lower() in _WORDS:
            return _WORDS[stripped.lower()]
        try:
            if not isinstance(json_text.parse(stripped), str) or "string" not in allowed:
                return stripped
        except ValueError:
            if allowed != _ALL and (literal := json_of_literal(stripped)) is not None:
                return literal
    return json.dumps(text, ensure_ascii=False)


def _type_of(value: JSON) -> str:
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "null"


def _resolved(reference: str, root: JSONObject) -> JSON:
    found: JSON = root
    for step in reference.removeprefix("#").split("/")[1:]:
        found = found.get(step.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found


def _listed(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []

"""The smallest thing that a schema or a forced tool call asks for; enough for the schemas of these tests."""

from __future__ import annotations

import json

from daemon.records import JSON, JSONObject

PERSON: JSONObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
PERSON_FORMAT: JSONObject = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON, "strict": True}}
WEATHER: JSONObject = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Rome"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def part(value: JSONObject, *names: str) -> JSONObject:
    """The object inside objects at `names`; empty where there is none."""
    for name in names:
        inner = value.get(name)
        value = inner if isinstance(inner, dict) else {}
    return value


def schema_of(response_format: JSONObject) -> JSONObject:
    """Of `json_object`: any object."""
    return part(response_format, "json_schema", "schema") or {"type": "object"}


def example(schema: JSONObject) -> JSON:
    values = schema.get("enum")
    if isinstance(values, list):
        return values[0]
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required")
        properties = part(schema, "properties")
        return {str(name): example(part(properties, str(name))) for name in (required if isinstance(required, list) else [])}
    if kind == "array":
        least = schema.get("minItems")
        return [example(part(schema, "items")) for _ in range(least if isinstance(least, int) else 0)]
    plain: dict[str, JSON] = {"string": "word", "integer": 1, "number": 1.5, "boolean": True}
    return plain.get(str(kind))


def forced(choice: JSON) -> bool:
    return choice == "required" or isinstance(choice, dict)


def example_call(tools: tuple[JSONObject, ...], choice: JSON) -> JSONObject:
    """A call of the tool that `choice` names, else of the first."""
    named = part(choice, "function").get("name") if isinstance(choice, dict) else None
    functions = [part(tool, "function") for tool in tools]
    function = next((each for each in functions if named is None or each.get("name") == named), functions[0])
    return {
        "function": {"name": function.get("name"), "arguments": json.dumps(example(part(function, "parameters") or {"type": "object"}))}
    }

"""What a grammar can hold an argument to that is written as bare text between tags."""

from __future__ import annotations

import json
from dataclasses import dataclass

from daemon import json_text
from daemon.engine.llama.formats.values import dereferenced, is_free, json_of_text, required_of, types_of
from daemon.records import JSON, JSONObject

_WHOLE = ("const", "enum", "anyOf", "oneOf", "allOf", "patternProperties", "minProperties", "maxProperties")
_LIMITS = ("minLength", "maxLength")


@dataclass(frozen=True, slots=True)
class BareText:
    choices: tuple[str, ...] = ()
    """The texts that it may be; none: any."""
    shortest: int = 0
    longest: int | None = None
    unheld: str = ""
    """The keyword that no grammar of bare text holds to; empty: all are held."""

    @property
    def limits(self) -> str:
        """How often a regular expression repeats a character of it."""
        return f"{{{self.shortest},{'' if self.longest is None else self.longest}}}" if self.shortest or self.longest is not None else "*"


def bare_text(schema: JSONObject, root: JSONObject) -> BareText:
    """Of a prepared schema that allows a string."""
    types = types_of(schema, root)
    for key in ("const", "enum"):
        if key in schema:
            values = schema[key] if key == "enum" else [schema[key]]
            texts = [value if isinstance(value, str) else json.dumps(value) for value in values] if isinstance(values, list) else []
            read = [json_text.parse(json_of_text(text, types)) for text in texts]
            same = json.dumps(read) == json.dumps(values) and not schema.keys() - {key, "type"}
            return BareText(tuple(texts), unheld="" if same else key)
    if is_free(schema, root):
        return BareText()
    if schema.keys() & {"anyOf", "oneOf"}:
        return BareText(unheld="" if _any_string_is_fine(schema, root) else next(key for key in ("anyOf", "oneOf") if key in schema))
    shortest, longest = (value if isinstance(value := schema.get(key), int) else None for key in _LIMITS)
    return BareText((), shortest or 0, longest, next((key for key in schema if key not in ("type", *_LIMITS)), ""))


def unheld_object(root: JSONObject) -> str:
    """The keyword of a tool's parameters that a grammar does not hold to which writes one argument after the other; empty: none."""
    properties = root.get("properties")
    if not required_of(root) <= (properties.keys() if isinstance(properties, dict) else set()):
        return "required"
    return next((key for key in _WHOLE if key in root), "")


def _any_string_is_fine(schema: JSONObject, root: JSONObject) -> bool:
    """Of alternatives: one, and only one, is any string at all."""
    if len(schema) > 1:
        return False
    choices: JSON = next(iter(schema.values()))
    parts = [dereferenced(choice, root) for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []
    strings = [part for part in parts if "string" in types_of(part, root)]
    return len(strings) == 1 and not strings[0].keys() - {"type"}

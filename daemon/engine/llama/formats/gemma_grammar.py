"""A grammar of the arguments that Gemma writes: JSON's shape with bare keys and texts between marks, held to the tool's schema."""

from __future__ import annotations

import json

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.values import dereferenced, property_schema, required_of, types_of, with_shared
from daemon.records import JSON, JSONObject

_DEPTH = 12
"""Objects and arrays inside one another that are held to their schema; deeper ones may hold anything."""


class GemmaGrammar:
    """Collects rules while it walks schemas."""

    def __init__(self, quote: str) -> None:
        self._quote = grammar.quoted(quote)
        self.rules = grammar.Rules(
            f"text: {self._quote} text_end",
            f"text_end[suffix={self._quote}]: /(?s:.*)/",
            'any: text | NUMBER | "true" | "false" | "null" | "[" (any ("," any)*)? "]" | any_object',
            'any_object: "{" (KEY ":" any ("," KEY ":" any)*)? "}"',
            "NUMBER: /-?(0|[1-9][0-9]{0,14})([.][0-9]{1,15})?(e-?[0-9]{1,2})?/",
            "KEY: /[A-Za-z_][A-Za-z0-9_]*/",
        )

    def members(self, schema: JSONObject, root: JSONObject, depth: int = 0) -> str:
        """A term for what is between the braces: properties in the schema's order, of which only the required ones must be there."""
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties or depth > _DEPTH:
            return '(KEY ":" any ("," KEY ":" any)*)?'
        needed = required_of(schema)
        return self.rules.sequence(
            [
                (f"{grammar.quoted(key + ':')} {self.value(property_schema(schema, key, root), root, depth + 1)}", key not in needed)
                for key in properties
            ],
            ",",
        )

    def value(self, schema: JSONObject, root: JSONObject, depth: int) -> str:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values and all(not isinstance(value, list | dict) for value in values):
            return "(" + " | ".join(map(self._literal, values)) + ")"
        types = types_of(schema, root)
        if types == {"string"}:
            return "text"
        if types == {"array"}:
            items = schema.get("items")
            item = self.value(dereferenced(items, root), root, depth + 1) if isinstance(items, dict) and depth < _DEPTH else "any"
            return self.rules.add(f'"[" ({item} ("," {item})*)? "]"')
        if types == {"object"}:
            return self.rules.add(f'"{{" {self.members(schema, root, depth)} "}}"')
        if types <= {"number", "integer", "boolean", "null"}:
            return grammar.schema(with_shared(schema, root))
        return "any"

    def _literal(self, value: JSON) -> str:
        if isinstance(value, str):
            return f"{self._quote} {grammar.text_term(value)} {self._quote}"
        return grammar.quoted(json.dumps(value))

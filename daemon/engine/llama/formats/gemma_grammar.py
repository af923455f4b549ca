"""A grammar of the arguments that Gemma writes: JSON's shape with bare keys and texts between marks, held to the tool's schema."""

from __future__ import annotations

import json

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.values import property_schema, types_of
from daemon.records import JSON, JSONObject

_DEPTH = 12
"""Objects and arrays inside one another that are held to their schema; deeper ones may hold anything."""


class GemmaGrammar:
    """Collects rules while it walks schemas."""

    def __init__(self, quote: str) -> None:
        self._quote = grammar.quoted(quote)
        self.rules = [
            f"text: {self._quote} text_end",
            f"text_end[suffix={self._quote}]: /(?s:.*)/",
            'any: text | %json {"type": ["number", "boolean", "null"]} | "[" (any ("," any)*)? "]" | any_object',
            'any_object: "{" (KEY ":" any ("," KEY ":" any)*)? "}"',
            "KEY: /[A-Za-z_][A-Za-z0-9_]*/",
        ]

    def members(self, schema: JSONObject, root: JSONObject, depth: int = 0) -> str:
        """A term for what is between the braces: properties in the schema's order, of which only the required ones must be there."""
        properties = schema.get("properties")
        if not isinstance(properties, dict) or not properties or depth > _DEPTH:
            return '(KEY ":" any ("," KEY ":" any)*)?'
        required = schema.get("required")
        needed = {key for key in required if isinstance(key, str)} if isinstance(required, list) else set()
        # From the last property to the first: what may follow with something before it, and with nothing before it.
        following = first = self._rule('""')
        for key in reversed(properties):
            member = f"{grammar.quoted(key + ':')} {self.value(property_schema(schema, key), root, depth + 1)} {following}"
            skip = f" | {following}" if key not in needed else ""
            skip_first = f" | {first}" if key not in needed else ""
            following, first = self._rule(f'"," {member}{skip}'), self._rule(f"{member}{skip_first}")
        return first

    def value(self, schema: JSONObject, root: JSONObject, depth: int) -> str:
        values = [schema["const"]] if "const" in schema else schema.get("enum")
        if isinstance(values, list) and values and all(not isinstance(value, list | dict) for value in values):
            return "(" + " | ".join(map(self._literal, values)) + ")"
        types = types_of(schema, root)
        if types == {"string"}:
            return "text"
        if types == {"array"}:
            items = schema.get("items")
            item = self.value(items, root, depth + 1) if isinstance(items, dict) and depth < _DEPTH else "any"
            return self._rule(f'"[" ({item} ("," {item})*)? "]"')
        if types == {"object"}:
            return self._rule(f'"{{" {self.members(schema, root, depth)} "}}"')
        if types <= {"number", "integer", "boolean", "null"}:
            return grammar.schema(schema)
        return "any"

    def _literal(self, value: JSON) -> str:
        if isinstance(value, str):
            return f"{self._quote} {grammar.text_term(value)} {self._quote}"
        return grammar.quoted(json.dumps(value))

    def _rule(self, body: str) -> str:
        name = f"part_{len(self.rules)}"
        self.rules.append(f"{name}: {body}")
        return name

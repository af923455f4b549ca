"""A grammar of the arguments that Gemma writes: JSON's shape with bare keys and texts between marks, held to the tool's schema."""

from __future__ import annotations

import json
import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.bare_text import BareText
from daemon.engine.llama.formats.values import is_free, required_of, types_of, with_shared
from daemon.records import JSON, JSONObject

_BARE_KEY = re.compile(r"[A-Za-z_][\w .-]*\w|[A-Za-z_]", re.ASCII)
_SCALARS = {
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "integer": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "boolean": (),
    "null": (),
}
_HELD = {
    "string": ("minLength", "maxLength"),
    "array": ("items", "minItems", "maxItems"),
    "object": ("properties", "required", "additionalProperties"),
    **_SCALARS,
}
"""The keywords of each type that a value is held to."""


class GemmaGrammar:
    """Walks the prepared schema of one tool and collects rules.

    `unheld`: the dotted place of the first keyword that the grammar does not hold to; empty: none.
    """

    def __init__(self, quote: str, root: JSONObject, rules: grammar.Rules) -> None:
        self.unheld = ""
        self._mark = quote
        self._quote = grammar.quoted(quote)
        self._root = root
        self._rules = rules
        self._references: dict[str, str] = {}

    @staticmethod
    def common_rules(quote: str) -> list[str]:
        return [
            f"any_text: {grammar.quoted(quote)} any_text_end",
            f"any_text_end[suffix={grammar.quoted(quote)}]: /(?s:.*)/",
            'any: any_text | NUMBER | "true" | "false" | "null" | "[" (any ("," any)*)? "]" | any_object',
            'any_object: "{" (KEY ":" any ("," KEY ":" any)*)? "}"',
            "NUMBER: /-?(0|[1-9][0-9]{0,14})([.][0-9]{1,15})?/",
            "KEY: /[A-Za-z_][A-Za-z0-9_]*/",
        ]

    def members(self, schema: JSONObject, place: str = "") -> str:
        """A term for what is between the braces: properties in the schema's order, of which only the required ones must be there."""
        if isinstance(reference := schema.get("$ref"), str) and not place:
            schema = self._referred(reference)
        properties, needed = schema.get("properties"), required_of(schema)
        named = properties if isinstance(properties, dict) else {}
        self._note(place, "" if needed <= named.keys() else "required")
        if named:
            parts = [
                (f"{self._key(key)} {self.value(part, _at(place, 'properties', key))}", key not in needed) for key, part in named.items()
            ]
            return self._rules.sequence(parts, ",")
        if schema.get("additionalProperties", {}) is False:
            return ""
        inner = self.value(schema.get("additionalProperties", {}), _at(place, "additionalProperties"))
        return f'(KEY ":" {inner} ("," KEY ":" {inner})*)?'

    def value(self, schema: JSON, place: str) -> str:
        if not isinstance(schema, dict) or is_free(schema, self._root):
            return "any"
        if isinstance(reference := schema.get("$ref"), str) and len(schema) == 1:
            if reference not in self._references:  # entered before it is filled: it may refer to itself
                self._references[reference] = self._rules.reserve()
                self._rules.fill(self._references[reference], self.value(self._referred(reference), place))
            return self._references[reference]
        for key in ("const", "enum"):
            if key in schema:
                values = schema[key] if key == "enum" else [schema[key]]
                self._note(place, next((other for other in schema if other not in (key, "type")), ""))
                return f"({' | '.join(map(self._literal, values if isinstance(values, list) else []))})"
        choices = next((key for key in ("anyOf", "oneOf") if key in schema), "")
        if choices and len(schema) == 1 and isinstance(parts := schema[choices], list):
            return f"({' | '.join(self.value(part, _at(place, choices, str(index))) for index, part in enumerate(parts))})"
        types = sorted(types_of(schema, self._root) if "type" in schema else set())
        types = [name for name in types if name != "integer" or "number" not in types]
        held = {key for name in types for key in _HELD[name]} | {"type"}
        self._note(place, next((key for key in schema if key not in held), ""))
        return f"({' | '.join(self._of_type(name, schema, place) for name in types)})" if types else "any"

    def _of_type(self, name: str, schema: JSONObject, place: str) -> str:
        own: JSONObject = {"type": name, **{key: schema[key] for key in _HELD[name] if key in schema}}
        if name == "string":
            return self._text(own)
        if name == "object":
            return grammar.joined(['"{"', self.members(own, place), '"}"'])
        if name == "array":
            item = self.value(own.get("items", {}), _at(place, "items"))
            least, most = own.get("minItems", 0), own.get("maxItems", "")
            if most == 0:
                return '"[" "]"'
            further = f"{{{max(0, least - 1) if isinstance(least, int) else 0},{most - 1 if isinstance(most, int) else ''}}}"
            some = f'{item} ("," {item}){further}'
            return f'"[" {some} "]"' if least else f'"[" ({some})? "]"'
        return grammar.schema(with_shared(own, self._root))

    def _text(self, schema: JSONObject) -> str:
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength")
        limits = BareText((), shortest if isinstance(shortest, int) else 0, longest if isinstance(longest, int) else None).limits
        if limits == "*":
            return "any_text"
        end = self._rules.reserve(f"[suffix={self._quote}]")
        self._rules.fill(end, f"/(?s:.{limits})/")
        return f"{self._quote} {end}"

    def _literal(self, value: JSON) -> str:
        if isinstance(value, str):
            return f"{self._quote} {grammar.text_term(value)} {self._quote}"
        if isinstance(value, dict):
            members = [f"{self._key(key)} {self._literal(item)}" for key, item in value.items()]
            return grammar.joined(['"{"', ' "," '.join(members), '"}"'])
        if isinstance(value, list):
            return grammar.joined(['"["', ' "," '.join(map(self._literal, value)), '"]"'])
        return grammar.quoted(json.dumps(value))

    def _key(self, key: str) -> str:
        return grammar.quoted(f"{key}:" if _BARE_KEY.fullmatch(key) else f"{self._mark}{key}{self._mark}:")

    def _referred(self, reference: str) -> JSONObject:
        definitions = self._root.get("$defs")
        found = definitions.get(reference.removeprefix("#/$defs/")) if isinstance(definitions, dict) else None
        return found if isinstance(found, dict) else {}

    def _note(self, place: str, key: str) -> None:
        if key:
            self.unheld = self.unheld or _at(place, key)


def _at(*names: str) -> str:
    return ".".join(name for name in names if name)

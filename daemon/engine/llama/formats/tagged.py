"""Families that write each argument between tags, its text bare: `<function=…><parameter=…>`, `<invoke name="…">`, `<arg_key>`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.bare_text import bare_text, unheld_object
from daemon.engine.llama.formats.calls import Call, functions
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import CutOff, Malformed, Source, Steps
from daemon.engine.llama.formats.values import dereferenced, json_of_text, property_schema, required_of, types_of, with_shared
from daemon.records import JSONObject

_NAME = re.compile(r"""[^\s<>"'{}\[\]]""")
KEY = re.compile(r'[^\n<>"]')


@dataclass(frozen=True, slots=True)
class Tags:
    """One family's tags. White space may stand between any two of them."""

    call: tuple[str, str]
    """Before and after the tool's name."""
    call_end: str
    parameter: tuple[str, ...]
    """Before the argument's name, and after it up to the value."""
    parameter_end: str
    open: str = ""
    """What is around the calls of a reply, or around each of them; empty: nothing."""
    close: str = ""
    each: bool = False
    """Whether `open` and `close` are around each call."""
    newlines: bool = False
    """Whether a value has a newline before and after it that does not belong to it."""


class TaggedFormat(MarkedFormat):
    """A family that is described by its tags."""

    tags: Tags

    def read_calls(self, scope: Scope) -> Calls:
        """After `open`, or after the beginning of a call that stands alone."""
        source, tags = scope.source, self.tags
        wrapped = bool(tags.open) and scope.marker == tags.open
        if wrapped:
            yield from source.space()
            yield from source.literal(tags.call[0])
        while True:
            call = yield from self._call(source, scope.tools)
            if not tags.each or not wrapped:
                yield (call,)
            if not wrapped:
                return
            yield from source.space()
            if tags.each or not (yield from source.maybe(tags.call[0])):
                break
        if not source.exhausted:
            yield from source.literal(tags.close)
        if tags.each:
            yield (call,)

    def _call(self, source: Source, tools: dict[str, JSONObject]) -> Steps[Call]:
        """One call, from its name to its end."""
        tags = self.tags
        name = yield from source.matching(_NAME)
        yield from source.space()
        if tags.call[1]:
            yield from source.literal(tags.call[1])
            yield from source.space()
        root = tools.get(name, {})
        arguments: dict[str, str] = {}
        while (yield from source.literal(tags.call_end, tags.parameter[0])) == tags.parameter[0]:
            key, types = yield from self.read_key(source, root)
            if key in arguments:
                raise Malformed(f"gives {key[:64]!r} twice")
            arguments[key] = json_of_text((yield from self._value(source)), types)
        return Call(name, "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in arguments.items()) + "}")

    def read_key(self, source: Source, root: JSONObject) -> Steps[tuple[str, frozenset[str]]]:
        """An argument's name and what is between it and the value; returns the name, and the JSON types that the value may be."""
        key = (yield from source.matching(KEY)).strip()
        for mark in self.tags.parameter[1:]:
            yield from source.space()
            yield from source.literal(mark)
        return key, types_of(property_schema(root, key, root), root)

    def before_value(self, key: str, *, text: bool) -> str:
        """What the grammar writes before a value; `text`: one that is bare text."""
        return self.tags.parameter[0] + key + "".join(self.tags.parameter[1:])

    def _value(self, source: Source) -> Steps[str]:
        """Up to the tag that ends it: one that is followed by another argument or the call's end. Others belong to the value."""
        tags, parts = self.tags, list[str]()
        while True:
            text, _ = yield from source.until(tags.parameter_end)
            spaces = yield from source.spaces()
            if (yield from source.ahead(tags.parameter[0], tags.call_end)):
                parts.append(text)
                break
            if source.exhausted:
                raise CutOff
            parts += [text, tags.parameter_end, spaces]
        return self.bare("".join(parts))

    def bare(self, value: str) -> str:
        """A value without what stands around it."""
        return value.removeprefix("\n").removesuffix("\n") if self.tags.newlines else value

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        rules = grammar.Rules(f"text[suffix={grammar.quoted(self.tags.parameter_end)}]: /(?s:.*)/")
        choices = [grammar.joined(self._call_terms(name, root, rules)) for name, root in functions(tools).items()]
        tags, line = self.tags, "\n"
        before, after = ("", "") if tags.each or not tags.open else (tags.open + line, line + tags.close)
        return grammar.calls(choices, parallel=parallel, before=before, between=line, after=after, rules=rules.lines)

    def unheld(self, parameters: JSONObject) -> str:
        root = dereferenced(parameters, parameters)
        for key in _properties(root):
            schema = property_schema(root, key, root)
            place = bare_text(schema, root).unheld if "string" in types_of(schema, root) else ""
            if place or key != "".join(KEY.findall(key)).strip():
                return f"properties.{key}" + (f".{place}" if place else "")
        return unheld_object(root)

    def _call_terms(self, name: str, root: JSONObject, rules: grammar.Rules) -> list[str]:
        """A call with the arguments in the schema's order, of which only the required ones must be there."""
        tags, line, root = self.tags, "\n", dereferenced(root, root)
        around = line if tags.newlines else ""
        terms = [grammar.quoted((tags.open + line if tags.each else "") + tags.call[0] + name + tags.call[1] + line)]
        for key in _properties(root):
            schema = property_schema(root, key, root)
            before = self.before_value(key, text="string" in types_of(schema, root)) + around
            argument = f"{grammar.quoted(before)} {self._value_terms(schema, root, around, rules)} {grammar.quoted(line)}"
            terms.append(argument if key in required_of(root) else f"({argument})?")
        terms.append(grammar.quoted(tags.call_end + (line + tags.close if tags.each else "")))
        return terms

    def _value_terms(self, schema: JSONObject, root: JSONObject, around: str, rules: grammar.Rules) -> str:
        end = grammar.quoted(around + self.tags.parameter_end)
        if "string" not in types_of(schema, root):
            return f"{grammar.schema(with_shared(schema, root))} {end}"
        text = bare_text(schema, root)
        if text.choices:
            return f"({' | '.join(map(grammar.quoted, text.choices))}) {end}"
        if text.limits == "*":
            return "text"
        held = rules.reserve(f"[suffix={end}]")
        rules.fill(held, held.upper())
        # The value must not hold the tag: the parser might take that for its end.
        inner = re.escape(self.tags.parameter_end).replace("/", "\\/")
        rules.lines.append(f"{held.upper()}: /(?s:.{text.limits})/ & ~/(?s:.*){inner}(?s:.*)/")
        return held


def _properties(root: JSONObject) -> JSONObject:
    found = root.get("properties")
    return found if isinstance(found, dict) else {}

"""FunctionGemma and Gemma 4: the name, then arguments in braces, keys bare, and texts between marks of their own.

    <start_function_call>call:read{path:<escape>a.py<escape>,limit:3}<end_function_call>
    <|tool_call>call:read{path:<|"|>a.py<|"|>,limit:3}<tool_call|>

Gemma 3 and older know no tools: our own prompt asks them for Hermes' form.
"""

from __future__ import annotations

import json
import re

from daemon import json_text
from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.bare_text import unheld_object
from daemon.engine.llama.formats.calls import Call, functions
from daemon.engine.llama.formats.gemma_grammar import GemmaGrammar
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.python_call import text_of
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import CutOff, Malformed, Source, Steps
from daemon.engine.llama.formats.values import dereferenced
from daemon.records import JSONObject

_NAME = re.compile(r"[^\s{}<>:,]")
_KEY = re.compile(r"[^{}\[\]<>:,\n]")
_WORD = re.compile(r"[-+.0-9A-Za-z]")


class GemmaFormat(MarkedFormat):
    """One of the two: they differ in their marks."""

    def __init__(self, name: str, around: tuple[str, str], quote: str, reasoning: tuple[str, str] = ("<think>", "</think>")) -> None:
        self.name = name
        self.reasoning = reasoning
        self.openings = self.interrupts = (around[0],)
        self.markers = (*around, quote, *reasoning)
        self._close = around[1]
        self._quote = quote

    def recognises(self, template: str) -> bool:
        return self.openings[0] in template and self._quote in template

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        yield from source.space()
        yield from source.literal("call:")
        name = yield from source.matching(_NAME)
        yield from source.space()
        yield from source.literal("{")
        text = "{" + ", ".join((yield from self._members(source, 0))) + "}"
        yield from source.space()
        if not source.exhausted:
            yield from source.literal(self._close)
        yield (Call(name, text),)

    def _members(self, source: Source, depth: int) -> Steps[list[str]]:
        members: dict[str, str] = {}  # the last of a name counts, as in JSON
        first = True
        yield from source.space()
        while not (yield from source.maybe("}")):
            if not first:
                yield from source.literal(",")
                yield from source.space()
            first = False
            quote = yield from source.maybe(self._quote, '"', "'")
            key = (yield from self._text(source, quote)) if quote else (yield from source.matching(_KEY)).strip()
            yield from source.space()
            yield from source.literal(":")
            members[key] = yield from self._value(source, depth)
            yield from source.space()
        return [f"{json.dumps(key, ensure_ascii=False)}: {value}" for key, value in members.items()]

    def _value(self, source: Source, depth: int) -> Steps[str]:
        """The JSON text of one value."""
        if depth > json_text.MAX_DEPTH:
            raise Malformed("is nested too deeply")
        yield from source.space()
        opening = yield from source.maybe(self._quote, '"', "'", "{", "[")
        if opening in (self._quote, '"', "'"):
            return json.dumps((yield from self._text(source, opening)), ensure_ascii=False)
        if opening == "{":
            return "{" + ", ".join((yield from self._members(source, depth + 1))) + "}"
        if opening == "[":
            items: list[str] = []
            yield from source.space()
            while not (yield from source.maybe("]")):
                if items:
                    yield from source.literal(",")
                items.append((yield from self._value(source, depth + 1)))
                yield from source.space()
            return "[" + ", ".join(items) + "]"
        word = yield from source.matching(_WORD)
        try:
            json_text.parse(word)
        except ValueError:
            raise CutOff if source.exhausted else Malformed("has an argument that is no value") from None
        return word

    def _text(self, source: Source, quote: str) -> Steps[str]:
        """Between the family's own marks, or the quotes of JSON and Python, which the models fall back on inside lists and objects."""
        if quote != self._quote:
            return (yield from text_of(source, quote))
        text, _ = yield from source.until(quote)
        return text

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        rules, choices = grammar.Rules(*GemmaGrammar.common_rules(self._quote)), []
        for name, root in functions(tools).items():
            before, after = f"{self.openings[0]}call:{name}{{", "}" + self._close
            members = GemmaGrammar(self._quote, root, rules).members(root)
            choices.append(grammar.joined([grammar.quoted(before), members, grammar.quoted(after)]))
        return grammar.calls(choices, parallel=parallel, rules=rules.lines)

    def unheld(self, parameters: JSONObject) -> str:
        walked = GemmaGrammar(self._quote, parameters, grammar.Rules())
        walked.members(parameters)
        return unheld_object(dereferenced(parameters, parameters)) or walked.unheld

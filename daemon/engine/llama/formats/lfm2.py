"""LFM2: calls in Python's way between control tokens, or in JSON where the system prompt asks for that.

<|tool_call_start|>[read(path="a.py", limit=3), list()]<|tool_call_end|>
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.bare_text import unheld_object
from daemon.engine.llama.formats.calls import Call, calls_of_json, functions
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.python_call import arguments_of
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.values import dereferenced, property_schema, required_of, with_shared
from daemon.records import JSONObject

_OPEN, _CLOSE = "<|tool_call_start|>", "<|tool_call_end|>"
_NAME = re.compile(r"[\w.-]")


class LFM2Format(MarkedFormat):
    name = "lfm2"
    markers = (_OPEN, _CLOSE, "<think>", "</think>")
    openings = interrupts = (_OPEN,)

    def recognises(self, template: str) -> bool:
        return "List of tools: " in template or _OPEN in template

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        yield from source.space()
        found: list[Call] = []
        if (yield from source.ahead("[{", "{")):
            found += calls_of_json((yield from source.json()))
        else:
            yield from source.literal("[")
            while True:
                yield from source.space()
                name = yield from source.matching(_NAME)
                yield from source.literal("(")
                found.append(Call(name, (yield from arguments_of(source))))
                yield from source.space()
                if (yield from source.literal(",", "]")) == "]":
                    break
        yield from source.space()
        if not source.exhausted:
            yield from source.literal(_CLOSE)
        yield tuple(found)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        rules, choices = grammar.Rules(), []
        for name, root in functions(tools).items():
            root = dereferenced(root, root)
            properties, required = root.get("properties"), required_of(root)
            arguments = [
                (grammar.around(f"{key}=", with_shared(property_schema(root, key, root), root), ""), key not in required)
                for key in (properties if isinstance(properties, dict) else {})
            ]
            choices.append(grammar.joined([grammar.quoted(f"{name}("), rules.sequence(arguments, ", "), grammar.quoted(")")]))
        return grammar.calls(choices, parallel=parallel, before=_OPEN + "[", between=", ", after="]" + _CLOSE, rules=rules.lines)

    def unheld(self, parameters: JSONObject) -> str:
        root = dereferenced(parameters, parameters)
        properties = root.get("properties")
        odd = next((key for key in (properties if isinstance(properties, dict) else {}) if not key.isidentifier()), "")
        return f"properties.{odd}" if odd else unheld_object(root)

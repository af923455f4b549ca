"""Llama 3.1 to 3.3: the whole reply is a JSON object, perhaps after `<|python_tag|>`; or a call of a built-in tool in Python's way.

    {"name": "read", "parameters": {"path": "a.py"}}
    <|python_tag|>brave_search.call(query="reef")

Several objects follow one another, with `;` or a line break between them. An answer that is JSON but names no tool is text.
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, calls_of_json, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.python_call import arguments_of
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import Malformed, Source, Steps
from daemon.records import JSONObject

_TAG = "<|python_tag|>"
_KEYS = ('"name"', '"type"', '"function"', '"parameters"', '"arguments"')
_NAME = re.compile(r"[\w-]")


class Llama3Format(MarkedFormat):
    name = "llama3"
    markers = (_TAG, "<think>", "</think>")
    openings = (_TAG,)
    starts = ("{",)

    def recognises(self, template: str) -> bool:
        return '"parameters"' in template and '{"name": function name' in template

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        tagged = scope.marker == _TAG
        if tagged:
            yield from source.space()
            if not (yield from source.maybe("{")):
                yield (yield from self._python(source))
                return
        while True:
            yield from source.space()
            if not tagged and not (yield from source.ahead(*_KEYS)):
                raise Malformed("")  # an answer in JSON
            yield _calls((yield from source.json("{")))
            yield from source.space()
            if (yield from source.maybe(";")):
                yield from source.space()
            if not (yield from source.maybe("{")):
                return

    def _python(self, source: Source) -> Steps[tuple[Call, ...]]:
        name = yield from source.matching(_NAME)
        yield from source.literal(".call(")
        return (Call(name, (yield from arguments_of(source))),)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            grammar.around('{"name": ' + grammar.quoted(name) + ', "parameters": ', parameters, "}")
            for name, parameters in functions(tools).items()
        ]
        return grammar.calls(choices, parallel=parallel, between="; ")


def _calls(text: str) -> tuple[Call, ...]:
    value = parsed(text)
    if isinstance(value, dict) and "name" not in value:
        raise Malformed("")
    return calls_of_json(text, arguments=("parameters", "arguments"))

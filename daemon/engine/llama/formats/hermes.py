"""Hermes, Qwen 2.5 and 3, Granite 4, and every model that is asked for tools by our own prompt: JSON in `<tool_call>`.

    <tool_call>
    {"name": "read", "arguments": {"path": "a.py"}}
    </tool_call>

Several calls are several blocks; some models put several objects, or an array, into one. Small ones forget the tags: a reply that
is the object alone is a call too, if it names a tool of the request.
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, calls_of_json, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import Malformed, Source, Steps
from daemon.records import JSONObject

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_ARGUMENTS = re.compile(r"""arguments\\?["']\s*:""")


class HermesFormat(MarkedFormat):
    name = "hermes"
    markers = (_OPEN, _CLOSE, "<think>", "</think>")
    openings = (_OPEN,)
    starts = ("{",)

    def recognises(self, template: str) -> bool:
        return _OPEN in template and _ARGUMENTS.search(template) is not None

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        if scope.marker == "{":
            yield (yield from self._bare(source, scope.tools))
            return
        found: list[Call] = []
        while True:
            yield from source.space()
            found += calls_of_json((yield from source.json()))
            yield from source.space()
            if source.exhausted or (yield from source.ahead("{", _CLOSE)) != "{":
                break
        if not source.exhausted:  # a reply that ends with a whole call need not close it
            yield from source.literal(_CLOSE)
        yield tuple(found)

    def _bare(self, source: Source, tools: dict[str, JSONObject]) -> Steps[tuple[Call, ...]]:
        """A reply that is nothing but the object, as small models write it. Any other answer in JSON is text, without a note."""
        yield from source.space()
        if not (yield from source.ahead('"name"')):
            raise Malformed("")
        try:
            text = yield from source.json("{")
            value = parsed(text)
            if isinstance(value, dict) and value.get("name") in tools and value.keys() & {"arguments", "parameters"}:
                return calls_of_json(text)
        except Malformed:
            pass
        raise Malformed("")

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            grammar.around(_OPEN + '\n{"name": ' + grammar.quoted(name) + ', "arguments": ', parameters, "}\n" + _CLOSE)
            for name, parameters in functions(tools).items()
        ]
        return grammar.calls(choices, parallel=parallel, between="\n")

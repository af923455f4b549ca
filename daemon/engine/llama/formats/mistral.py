"""Mistral: `[TOOL_CALLS]`, then an array of calls (Nemo and older), or each call's name and arguments (from Small 3.2 and Devstral on).

    [TOOL_CALLS][{"name": "read", "arguments": {"path": "a.py"}, "id": "a1b2c3d4e"}]
    [TOOL_CALLS]read[ARGS]{"path": "a.py"}[TOOL_CALLS]list[CALL_ID]a1b2c3d4e[ARGS]{}

Reasoning stands in `[THINK]`. The ids that a model makes up are not used: the client gets ours.
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, argument_text, calls_of_json, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.records import JSONObject

_OPEN, _ARGUMENTS, _ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_NAME = re.compile(r"[^\s\[{<]")


class MistralFormat(MarkedFormat):
    """The newer form."""

    name = "mistral"
    reasoning = ("[THINK]", "[/THINK]")
    markers = (_OPEN, _ARGUMENTS, _ID, *reasoning, "<think>", "</think>")
    openings = interrupts = (_OPEN,)

    def recognises(self, template: str) -> bool:
        return _OPEN in template and _ARGUMENTS in template

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        yield from source.space()
        if (yield from source.ahead("[{", "{")):
            yield calls_of_json((yield from source.json()))
            return
        name = yield from source.matching(_NAME)
        if (yield from source.maybe(_ID)):
            yield from source.matching(_NAME)
        yield from source.maybe(_ARGUMENTS)
        yield from source.space()
        text = yield from source.json()
        yield (Call(name, argument_text(parsed(text), text)),)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [grammar.around(_OPEN + name + _ARGUMENTS, parameters, "") for name, parameters in functions(tools).items()]
        return grammar.calls(choices, parallel=parallel)


class MistralArrayFormat(MistralFormat):
    """The older form. Both are read by both."""

    name = "mistral-array"

    def recognises(self, template: str) -> bool:
        return _OPEN in template

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            grammar.around('{"name": ' + grammar.quoted(name) + ', "arguments": ', parameters, "}")
            for name, parameters in functions(tools).items()
        ]
        return grammar.calls(choices, parallel=parallel, before=_OPEN + "[", between=", ", after="]")

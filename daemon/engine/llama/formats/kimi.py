"""Kimi K2: each call between control tokens, with a name like `functions.read:0`.

<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a.py"}<|tool_call_end|>
<|tool_calls_section_end|>
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, argument_text, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat, in_section
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import Source, Steps
from daemon.records import JSONObject

_BEGIN, _END = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
_CALL, _ARGUMENTS, _CALL_END = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
_NAME = re.compile(r"[^\s<{]")


class KimiFormat(MarkedFormat):
    name = "kimi"
    markers = (_BEGIN, _END, _CALL, _ARGUMENTS, _CALL_END, "<think>", "</think>")
    openings = interrupts = (_BEGIN, _CALL)

    def recognises(self, template: str) -> bool:
        return _CALL in template and _ARGUMENTS in template

    def read_calls(self, scope: Scope) -> Calls:
        return in_section(scope, (_BEGIN, _END), _CALL, lambda: self._call(scope.source, scope.tools))

    def _call(self, source: Source, tools: dict[str, JSONObject]) -> Steps[Call]:
        yield from source.space()
        written = yield from source.matching(_NAME)
        name = re.sub(r":[0-9]+$", "", written)
        if name not in tools:
            name = name.removeprefix("functions.")
        yield from source.space()
        yield from source.literal(_ARGUMENTS)
        yield from source.space()
        text = yield from source.json()
        yield from source.space()
        if not source.exhausted:
            yield from source.literal(_CALL_END)
        return Call(name, argument_text(parsed(text), text))

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            f"{grammar.quoted(f'{_CALL}functions.{name}:')} /[0-9]{{1,3}}/ {grammar.around(_ARGUMENTS, parameters, _CALL_END)}"
            for name, parameters in functions(tools).items()
        ]
        return grammar.calls(choices, parallel=parallel, before=_BEGIN, after=_END)

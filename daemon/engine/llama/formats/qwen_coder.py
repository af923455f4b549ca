"""Qwen3-Coder and Qwen 3.5, Nemotron 3, StepFun: each argument in tags, its text bare.

    <tool_call>
    <function=read>
    <parameter=path>
    a.py
    </parameter>
    </function>
    </tool_call>

The models leave out the outer `<tool_call>` at times, and some fall back to Hermes' JSON inside it: both are read too.
Seed-OSS writes the same with tags of its own around it.
"""

from __future__ import annotations

from daemon.engine.llama.formats.hermes import HermesFormat
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.tagged import TaggedFormat, Tags

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"


class QwenCoderFormat(TaggedFormat):
    name = "qwen-coder"
    markers = (_OPEN, _CLOSE, "<think>", "</think>")
    openings = (_OPEN, "<function=")
    tags = Tags(
        call=("<function=", ">"),
        call_end="</function>",
        parameter=("<parameter=", ">"),
        parameter_end="</parameter>",
        open=_OPEN,
        close=_CLOSE,
        each=True,
        newlines=True,
    )

    def recognises(self, template: str) -> bool:
        return "<function=" in template and "<parameter=" in template and _OPEN in template

    def read_calls(self, scope: Scope) -> Calls:
        if scope.marker == _OPEN:
            yield from scope.source.space()
            if (yield from scope.source.ahead("{", "[")):
                yield from HermesFormat().read_calls(scope)
                return
        yield from super().read_calls(scope)
        if scope.marker != _OPEN:
            yield from scope.source.space()
            yield from scope.source.maybe(_CLOSE)


class SeedFormat(TaggedFormat):
    name = "seed"
    openings = ("<seed:tool_call>",)
    reasoning = ("<seed:think>", "</seed:think>")
    markers = ("<seed:tool_call>", "</seed:tool_call>", *reasoning)
    tags = Tags(
        call=("<function=", ">"),
        call_end="</function>",
        parameter=("<parameter=", ">"),
        parameter_end="</parameter>",
        open="<seed:tool_call>",
        close="</seed:tool_call>",
        each=True,
    )

    def recognises(self, template: str) -> bool:
        return "<seed:tool_call>" in template

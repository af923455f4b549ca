"""Families that write the tool's name between marks, and JSON arguments after it.

Functionary 3.1     <function=read>{"path": "a.py"}</function>
Functionary 3.2     >>>read {"path": "a.py"}          (the prompt ends with >>>, and text is addressed to "all")
Solar Open          <|tool_call:begin|>ID<|tool_call:name|>read<|tool_call:args|>{"path": "a.py"}<|tool_call:end|>
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.base import Parser
from daemon.engine.llama.formats.calls import Call, argument_text, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.reader import Calls, Dialect, Reader, Scope
from daemon.records import JSONObject

_NAME = re.compile(r"[^\s<>{]")


class NamedFormat(MarkedFormat):
    """`open`, the name, `middle`, JSON, `close`."""

    open: str
    middle: str
    close: str

    def read_calls(self, scope: Scope) -> Calls:
        source = scope.source
        name = yield from source.matching(_NAME)
        yield from source.literal(self.middle)
        yield from source.space()
        text = yield from source.json()
        call = Call(name, argument_text(parsed(text), text))
        if self.close:
            yield from source.space()
            if not source.exhausted:
                yield from source.literal(self.close)
        yield (call,)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [grammar.around(self.open + name + self.middle, parameters, self.close) for name, parameters in functions(tools).items()]
        return grammar.calls(choices, parallel=parallel)


class Functionary31Format(NamedFormat):
    name = "functionary-3.1"
    markers = ("<think>", "</think>")
    openings = ("<function=",)
    open, middle, close = "<function=", ">", "</function>"

    def recognises(self, template: str) -> bool:
        return "<function=" in template and "start_tag" in template


class Functionary32Format(NamedFormat):
    name = "functionary-3.2"
    markers = ("<think>", "</think>")
    openings = (">>>",)
    open, middle, close = ">>>", "\n", ""
    before_text = '"all\\n"'

    def recognises(self, template: str) -> bool:
        return "'>>>all\\n'" in template

    def parser(self, tools: tuple[JSONObject, ...], prompt_end: str) -> Parser:
        parser = super().parser(tools, prompt_end) if functions(tools) else Reader(Dialect({}, dropped=(">>>all\n",)), (), reasons=False)
        if prompt_end.endswith(">>>"):
            parser.push(">>>")
        return parser

    def read_calls(self, scope: Scope) -> Calls:
        if not (yield from scope.source.maybe("all\n")):
            yield from super().read_calls(scope)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        """The first `>>>` is in the prompt."""
        choices = [grammar.around(name + self.middle, parameters, "") for name, parameters in functions(tools).items()]
        return grammar.calls(choices, parallel=parallel, between=">>>")


class SolarFormat(NamedFormat):
    """Each part of a reply begins with `<|begin|>assistant` and what it is."""

    name = "solar"
    reasoning = ("<|think|>", "<|end|>")
    dropped = ("<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>", "<|end|>")
    openings = interrupts = ("<|tool_call:begin|>",)
    open, middle, close = "<|tool_call:begin|>", "<|tool_call:args|>", "<|tool_call:end|>"
    markers = ("<|begin|>", *reasoning, *dropped[1:], open, "<|tool_call:name|>", middle, close)
    before_text = '"<|content|>"'

    def recognises(self, template: str) -> bool:
        return self.open in template

    def read_calls(self, scope: Scope) -> Calls:
        yield from scope.source.matching(_NAME)
        yield from scope.source.literal("<|tool_call:name|>")
        yield from super().read_calls(scope)

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            f"{grammar.quoted(self.open)} /[a-z0-9]{{9,10}}/ "
            + grammar.around(f"<|tool_call:name|>{name}{self.middle}", parameters, self.close)
            for name, parameters in functions(tools).items()
        ]
        return grammar.calls(choices, parallel=parallel, before="<|tool_calls|>")

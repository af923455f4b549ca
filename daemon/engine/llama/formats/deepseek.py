"""DeepSeek R1 and V3: calls between control tokens, the arguments as JSON, fenced in the older form. V3.2 and V4: tags.

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read
```json
{"path": "a.py"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>

<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{"path": "a.py"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>

<｜DSML｜function_calls>
<｜DSML｜invoke name="read">
<｜DSML｜parameter name="path" string="true">a.py</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜function_calls>
"""

from __future__ import annotations

import re

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, argument_text, functions, parsed
from daemon.engine.llama.formats.marked import MarkedFormat, in_section
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import Source, Steps
from daemon.engine.llama.formats.tagged import KEY, TaggedFormat, Tags
from daemon.records import JSONObject

_BEGIN, _END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _SEPARATOR, _CALL_END = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_NAME = re.compile(r"[^\s<{`]")


class DeepSeekFormat(MarkedFormat):
    """V3.1's form, without fences."""

    name = "deepseek"
    markers = (_BEGIN, _END, _CALL, _SEPARATOR, _CALL_END, "<think>", "</think>")
    openings = interrupts = (_BEGIN, _CALL)

    def recognises(self, template: str) -> bool:
        return _CALL in template

    def read_calls(self, scope: Scope) -> Calls:
        return in_section(scope, (_BEGIN, _END), _CALL, lambda: self._call(scope.source))

    def _call(self, source: Source) -> Steps[Call]:
        name = yield from source.matching(_NAME)
        yield from source.literal(_SEPARATOR)
        yield from source.space()
        fenced = not (yield from source.ahead("{"))
        if fenced:  # what was before the separator is the kind, always "function"
            name = yield from source.matching(_NAME)
            yield from source.space()
            yield from source.literal("```json")
            yield from source.space()
        text = yield from source.json()
        yield from source.space()
        if fenced and not source.exhausted:
            yield from source.literal("```")
            yield from source.space()
        if not source.exhausted:
            yield from source.literal(_CALL_END)
        return Call(name, argument_text(parsed(text), text))

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [grammar.around(self._before(name), parameters, self._after()) for name, parameters in functions(tools).items()]
        return grammar.calls(choices, parallel=parallel, before=_BEGIN, after=_END)

    def _before(self, name: str) -> str:
        return _CALL + name + _SEPARATOR

    def _after(self) -> str:
        return _CALL_END


class DeepSeekFencedFormat(DeepSeekFormat):
    """R1's and V3's form. Both are read by both."""

    name = "deepseek-fenced"

    def recognises(self, template: str) -> bool:
        return _CALL in template and "```json" in template

    def _before(self, name: str) -> str:
        return f"{_CALL}function{_SEPARATOR}{name}\n```json\n"

    def _after(self) -> str:
        return "\n```" + _CALL_END


class DSMLFormat(TaggedFormat):
    """V3.2's and V4's form, which have another word for the block each. Each argument says whether it is a string."""

    markers = ("｜DSML｜", "<think>", "</think>")

    def __init__(self, name: str, block: str) -> None:
        self.name = name
        self.tags = Tags(
            call=('<｜DSML｜invoke name="', '">'),
            call_end="</｜DSML｜invoke>",
            parameter=('<｜DSML｜parameter name="', '"'),
            parameter_end="</｜DSML｜parameter>",
            open=f"<｜DSML｜{block}>",
            close=f"</｜DSML｜{block}>",
        )
        self.openings = self.interrupts = (self.tags.open,)

    def recognises(self, template: str) -> bool:
        return "｜DSML｜" in template and self.tags.open.removeprefix("<｜DSML｜") in template

    def read_key(self, source: Source, root: JSONObject) -> Steps[tuple[str, frozenset[str]]]:
        key = yield from source.matching(KEY)
        yield from source.literal('"')
        yield from source.space()
        text = (yield from source.literal('string="true">', 'string="false">')) == 'string="true">'
        return key, frozenset({"string"}) if text else frozenset({"number", "boolean", "null", "array", "object"})

    def before_value(self, key: str, *, text: bool) -> str:
        return f'{self.tags.parameter[0]}{key}" string="{"true" if text else "false"}">'

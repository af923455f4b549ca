"""gpt-oss, Harmony: a reply is messages, each with a channel, and a recipient where it is a call.

    <|channel|>analysis<|message|>…<|end|><|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>{…}<|call|>
    <|channel|>final<|message|>…<|return|>

Analysis is reasoning, commentary and final are text, and what is sent to a function is a call. The recipient may stand before the
channel too. The prompt ends with `<|start|>assistant`, perhaps with a channel.
"""

from __future__ import annotations

import re

from daemon.engine.base import Delta
from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.base import Parser, ToolFormat
from daemon.engine.llama.formats.calls import Call, argument_text, functions, parsed
from daemon.engine.llama.formats.reader import Shown, Spaced, StepParser
from daemon.engine.llama.formats.source import Malformed, Markers, Source, Steps
from daemon.records import JSONObject

_START, _CHANNEL, _CONSTRAIN, _MESSAGE = "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"
_ENDS = ("<|end|>", "<|call|>", "<|return|>")
_HEADER = re.compile(r"[^\n<]")
_LONGEST_HEADER = 400
_CHANNEL_NAME = re.compile(r"<\|channel\|>\s*(\w+)")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_NOBODY = ("assistant", "user", "all")
"""Recipients that are no tools, to whom a model addresses text."""
_OPENED = re.compile(r"((?: to=[^\s<]+)?(?:<\|channel\|>[^\n<]*)?(?:<\|message\|>)?)$")


class HarmonyFormat(ToolFormat):
    name = "harmony"
    markers = (_START, _CHANNEL, _CONSTRAIN, _MESSAGE, *_ENDS)
    reasoning = (f"{_CHANNEL}analysis{_MESSAGE}", _ENDS[0])
    before_text = f'"{_START}assistant"? "{_CHANNEL}final{_MESSAGE}"'

    def recognises(self, template: str) -> bool:
        return _CHANNEL in template and _MESSAGE in template and "analysis" in template

    def parser(self, tools: tuple[JSONObject, ...], prompt_end: str) -> Parser:
        opened = _OPENED.search(prompt_end.rstrip())
        return _HarmonyParser(functions(tools), opened[1] if opened else "")

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        choices = [
            grammar.around(f"{_CHANNEL}commentary to=functions.{name} {_CONSTRAIN}json{_MESSAGE}", parameters, "")
            for name, parameters in functions(tools).items()
        ]
        start = f"{_START}assistant"
        text = grammar.calls(choices, parallel=parallel, between=_ENDS[1] + start)
        return text.replace("start: ", f"start: {grammar.quoted(start)}? ", 1)


class _HarmonyParser(StepParser):
    def __init__(self, tools: dict[str, JSONObject], opened: str) -> None:
        """`opened`: what the prompt has written of the first message's header."""
        super().__init__()
        self._tools = tools
        self._opened = opened
        self._count = 0
        self._shown = {"text": False, "reasoning": False}

    def shown(self) -> Shown:
        source = self._source
        header = self._opened
        while True:
            spaces = ""
            if not header.endswith(_MESSAGE):
                spaces = yield from source.spaces()
                if source.exhausted:
                    yield from self._body(spaces)
                    return
                if header or (yield from source.ahead(_START, _CHANNEL, _MESSAGE, "to=")):
                    try:
                        header += yield from self._header(source)
                    except Malformed:  # no header: text, as a model writes that was trained otherwise
                        yield from self._body(source.since_mark())
                        source.mark()
                        header = ""
                        continue
            channel, recipient = _CHANNEL_NAME.search(header), _RECIPIENT.search(header)
            if recipient and self._tools and recipient[1] not in _NOBODY:
                yield from self._call(recipient[1])
            else:
                source.mark()
                yield from self._body("" if header else spaces, reasoning=channel is not None and channel[1] == "analysis")
            source.mark()
            header = ""
            if source.exhausted:
                return

    def _header(self, source: Source) -> Steps[str]:
        """Up to the message's beginning."""
        parts: list[str] = []
        while sum(map(len, parts)) < _LONGEST_HEADER:
            parts.append((yield from source.matching(_HEADER)))
            parts.append((yield from source.literal(_START, _CHANNEL, _CONSTRAIN, _MESSAGE)))
            if parts[-1] == _MESSAGE:
                return "".join(parts)
        raise Malformed("")

    def _body(self, begun: str, *, reasoning: bool = False) -> Shown:
        """Text or reasoning up to the message's end; a blank line is between what comes of two messages."""
        source, text, kind = self._source, Spaced(lead=reasoning), "reasoning" if reasoning else "text"
        markers = Markers(*_ENDS, _START, _CHANNEL)
        found, marker = begun, ""
        while True:
            if more := text.add(found):
                blank, self._shown[kind] = "\n\n" if self._shown[kind] and text.first else "", True
                text.first = False
                yield Delta(reasoning=blank + more) if reasoning else Delta(text=blank + more)
            if marker or source.exhausted:
                break
            found, marker = source.scan(markers)
            if not found and not marker:
                yield None
        if not reasoning:
            yield Delta(text=text.rest())
        if marker in (_START, _CHANNEL):
            source.unread(marker)

    def _call(self, recipient: str) -> Shown:
        """A call's arguments up to the message's end; what is no call becomes text."""
        source = self._source
        name = recipient if recipient in self._tools else recipient.removeprefix("functions.")
        try:
            if name not in self._tools:
                raise Malformed(f"names {name[:64]!r}, which is no tool of this request")
            yield from source.space()
            empty = (yield from source.ahead(*_ENDS)) != ""
            text = "{}" if empty else (yield from source.json())
            call = Call(name, argument_text(parsed(text), text))
            yield from source.space()
            if not source.exhausted:
                yield from source.literal(*_ENDS)
            yield from call.deltas(self._count)
            self._count += 1
            self.note = self.note or source.remark
        except Malformed as reason:
            self.note = self.note or f"A tool call is given as text: it {reason}."
            yield from self._body(source.since_mark())

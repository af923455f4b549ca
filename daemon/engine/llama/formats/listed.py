"""Families whose calls are JSON between two markers and differ in little else: which markers, which fields.

Nemotron Nano 2     <TOOLCALL>[{"name": "read", "arguments": {…}}]</TOOLCALL>
Apriel              <tool_calls>[{"name": "read", "arguments": {…}, "id": "…"}]</tool_calls>
MiniMax M1          <tool_calls> {"name": "read", "arguments": {…}} {…} </tool_calls>
Command R7B, A      <|START_ACTION|>[{"tool_call_id": "0", "tool_name": "read", "parameters": {…}}]<|END_ACTION|>
Command R+          Action: ```json [{"tool_name": "read", "parameters": {…}}]```
Granite 3           <|tool_call|>[{"name": "read", "arguments": {…}}]
GigaChat 3.1        <|function_call|>{"name": "read", "arguments": {…}}
FireFunction 2      functools[{"name": "read", "arguments": {…}}]
Apertus             <|tools_prefix|>[{"read": {…}}]<|tools_suffix|>
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from daemon.engine.llama.formats import grammar
from daemon.engine.llama.formats.calls import Call, calls_of_json, calls_of_named_objects, functions
from daemon.engine.llama.formats.marked import MarkedFormat
from daemon.engine.llama.formats.reader import Calls, Scope
from daemon.engine.llama.formats.source import Malformed
from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Listing:
    """One family."""

    open: str
    close: str = ""
    fields: tuple[str, str] = ("name", "arguments")
    """What names the tool, and its arguments; none where the name is the only field and the arguments its value."""
    form: Literal["array", "objects", "object"] = "array"
    """What is between the markers: an array, objects one after the other, or one object."""
    before: str = ""
    """Between the opening marker and the JSON."""
    reasoning: tuple[str, str] = ("<think>", "</think>")
    dropped: tuple[str, ...] = ()
    interrupts: bool = False
    """Whether the opening marker ends reasoning too."""
    spoken: tuple[str, ...] = ()
    """Control tokens that the markers are made of, where they are no markers themselves."""
    signs: tuple[str, ...] = ()
    """What a template has to hold to be recognised; the opening marker where nothing is said."""


class ListedFormat(MarkedFormat):
    def __init__(self, name: str, listing: Listing) -> None:
        self.name = name
        self.openings = (listing.open,)
        self.interrupts = (listing.open,) if listing.interrupts else ()
        self.dropped = listing.dropped
        self.reasoning = listing.reasoning
        self.markers = tuple(mark for mark in (listing.open, listing.close, *listing.dropped, *listing.reasoning, *listing.spoken) if mark)
        self._listing = listing

    def recognises(self, template: str) -> bool:
        return all(sign in template for sign in self._listing.signs or (self._listing.open,))

    def read_calls(self, scope: Scope) -> Calls:
        source, listing = scope.source, self._listing
        found: list[Call] = []
        begun = "[" if listing.open.endswith("[") else ""
        yield from source.space()
        if listing.before and not (yield from source.maybe(listing.before)):
            raise Malformed("")  # the opening marker is a word that texts have too
        while True:
            yield from source.space()
            found += self._calls((yield from source.json(begun)))
            yield from source.space()
            if begun or not listing.close or source.exhausted or (yield from source.ahead("{", listing.close)) != "{":
                break
        if listing.close and not source.exhausted:
            yield from source.literal(listing.close)
        yield tuple(found)

    def _calls(self, text: str) -> tuple[Call, ...]:
        name, arguments = self._listing.fields
        if not name:
            return calls_of_named_objects(text)
        return calls_of_json(text, name=name, arguments=(arguments,))

    def call_grammar(self, tools: tuple[JSONObject, ...], *, parallel: bool) -> str:
        listing = self._listing
        name, arguments = listing.fields
        choices = []
        for tool, parameters in functions(tools).items():
            before = f'{{"{name}": {grammar.quoted(tool)}, "{arguments}": ' if name else f"{{{grammar.quoted(tool)}: "
            choices.append(grammar.around(before, parameters, "}"))
        begin = listing.open + (f"\n{listing.before}\n" if listing.before else "")
        if listing.form == "array":
            begin = begin.removesuffix("[") + "["
            return grammar.calls(choices, parallel=parallel, before=begin, between=", ", after="]" + listing.close)
        if listing.form == "object":  # one call a marker, which closes nothing
            return grammar.calls([f"{grammar.quoted(begin)} {choice}" for choice in choices], parallel=parallel)
        return grammar.calls(choices, parallel=parallel, before=begin + "\n", between="\n", after="\n" + listing.close)


_APRIEL = ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]")
_COHERE = ("<|START_THINKING|>", "<|END_THINKING|>")
LISTED = (
    ListedFormat("nemotron", Listing("<TOOLCALL>", "</TOOLCALL>")),
    ListedFormat("minimax-m1", Listing("<tool_calls>", "</tool_calls>", form="objects", signs=("<tool_calls>", "<beginning_of_sentence>"))),
    ListedFormat(
        "apriel",
        Listing(
            "<tool_calls>",
            "</tool_calls>",
            reasoning=_APRIEL,
            dropped=("[END FINAL RESPONSE]",),
            interrupts=True,
            signs=("<tool_calls>", _APRIEL[1]),
        ),
    ),
    ListedFormat(
        "command-r7b",
        Listing(
            "<|START_ACTION|>",
            "<|END_ACTION|>",
            fields=("tool_name", "parameters"),
            reasoning=_COHERE,
            interrupts=True,
            dropped=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
        ),
    ),
    ListedFormat(
        "command-r", Listing("Action:", "```", fields=("tool_name", "parameters"), before="```json", signs=("Action:", "tool_name"))
    ),
    ListedFormat("granite3", Listing("<|tool_call|>", interrupts=True, signs=("<|tool_call|>", "<|end_of_role|>"))),
    ListedFormat("gigachat", Listing("<|function_call|>", form="object")),
    ListedFormat(
        "gigachat3",
        Listing(
            "function call<|role_sep|>",
            form="object",
            dropped=("<|message_sep|>",),
            spoken=("<|role_sep|>",),
            signs=("function call", "<|role_sep|>", "<|message_sep|>"),
        ),
    ),
    ListedFormat("firefunction", Listing("functools[")),
    ListedFormat(
        "apertus", Listing("<|tools_prefix|>", "<|tools_suffix|>", fields=("", ""), reasoning=("<|inner_prefix|>", "<|inner_suffix|>"))
    ),
)

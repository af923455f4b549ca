"""From what a request asks of its reply (`response_format`, `tool_choice`) to a grammar, and to the constraint that holds the reply to it.

Grammars are llguidance's: a list of which the first refers to the others by `@name`, each in Lark or a JSON schema. A reply that must
be JSON while tools may be called as well is one or the other. A model that reasons may do so first; a reply is then held from there on.
"""

from __future__ import annotations

import ctypes
import json
import re
import threading
import time
from dataclasses import dataclass

from llama_cpp import llama_cpp as native
from llguidance import LLMatcher, LLTokenizer

from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.protocol import GenerateCall
from daemon.engine.llama.structure.constraint import Constraint
from daemon.engine.llama.structure.grammar_check import GrammarCheck
from daemon.engine.llama.structure.grammar_limits import grammar_limits
from daemon.engine.llama.structure.json_schema import parts, prepared
from daemon.engine.llama.structure.schema_values import refused
from daemon.engine.llama.structure.tool_choice import allowed_tools, forced
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject

_LARGEST_GRAMMAR = 1 << 20  # characters
_SEARCH_S = 1.0  # for the part of a schema that does not compile
_FORCING_UP_TO = 1 << 15  # characters of a grammar
_LONG_TEXT = re.compile(r'"[^"]{400}')


@dataclass(frozen=True, slots=True)
class _Part:
    """A schema of the request, and where it stands there."""

    schema: JSON
    path: str


class Structures:
    """The constraints of one model's replies. Safe to use from several threads; what it returns is for one at a time.

    The tokenizer that llguidance needs is built with the first constraint, which takes a few tenths of a second.
    """

    def __init__(self, vocabulary: Vocabulary, check: GrammarCheck | None = None) -> None:
        self._vocabulary = vocabulary
        self._check = check or GrammarCheck()
        self._tokenizers: dict[tuple[str, ...], LLTokenizer] = {}
        self._building = threading.Lock()

    def constraint(self, call: GenerateCall, format: ToolFormat, prompt_end: str = "") -> Constraint | None:
        """What the reply to this call must be; None if it is free.

        Args:
            prompt_end: the last characters of the rendered prompt: it may have opened the reasoning already.

        Raises:
            BadRequest: a value that means nothing, a tool that is not there, or a schema that cannot be expressed; names the part.
        """
        reply = _reply_schema(call.response_format)
        must = forced(call.tool_choice, call.tools)
        if must:
            reply = None
        if reply is None and not must:
            return None
        tools = allowed_tools(call.tool_choice, call.tools)
        grammars: list[JSONObject] = []
        sources: list[_Part] = []
        choices: list[str] = []
        if reply is not None:
            choices.append(f"{format.before_text} @reply")
            grammars.append({"name": "reply", "json_schema": prepared(reply.schema, reply.path)})
            sources.append(reply)
        if tools:
            parameters = _parameters(tools)
            ready = [self._prepared_tool(tool, source, format, must) for tool, source in zip(tools.values(), parameters, strict=True)]
            several = call.parallel_tool_calls and not isinstance(call.tool_choice, dict)  # a choice of one is one call
            choices.append("@calls")
            grammars.append({"name": "calls", "lark_grammar": format.call_grammar(tuple(ready), parallel=several)})
            sources += parameters
        before, rules = self._reasoning(format, prompt_end)
        text = json.dumps(grammars)
        # What can only come in one way is spelled in the tokens that the model knows best, which takes long for long texts.
        options = {"no_forcing": len(text) > _FORCING_UP_TO or _LONG_TEXT.search(text) is not None}
        whole = f"%llguidance {json.dumps(options)}\nstart: {before} body\nbody: {' | '.join(choices)}\n{rules}"
        text = json.dumps({"grammars": [{"lark_grammar": whole}, *grammars]})
        if len(text) > _LARGEST_GRAMMAR:
            raise BadRequest(f"{sources[0].path} and the other tools' parameters are too large together.", param=sources[0].path)
        return self._compiled(text, format, sources)

    def _prepared_tool(self, tool: JSONObject, source: _Part, format: ToolFormat, must: bool) -> JSONObject:
        """A tool for `call_grammar`. One that only may be called, and whose schema cannot be held to, may be called with any object."""
        try:
            parameters = prepared(source.schema, source.path)
            place = format.unheld(parameters)
            if place:
                raise refused(f"{source.path}.{place}", f"cannot be held to in this model's way of writing calls ({format.name})")
            if not must and self._fault(source.schema, source.path, source):
                raise refused(source.path, "cannot be expressed as a grammar")
        except BadRequest:
            if must:
                raise
            parameters = prepared({"type": "object"}, source.path)
        function = tool.get("function")
        return {**tool, "function": {**(function if isinstance(function, dict) else {}), "parameters": parameters}}

    def _compiled(self, grammar: str, format: ToolFormat, sources: list[_Part]) -> Constraint:
        fault = self._check.fault(grammar)
        if fault:
            deadline = time.monotonic() + _SEARCH_S
            for source in sources:
                self._find_fault(source, deadline)
            raise refused(sources[0].path, f"cannot be expressed as a grammar: {_reason(fault)}")
        matcher = LLMatcher(self._tokenizer(format.markers), grammar, log_level=0, limits=grammar_limits())
        if matcher.is_error():
            raise refused(sources[0].path, f"cannot be expressed as a grammar: {_reason(matcher.get_error())}")
        constraint = Constraint(matcher, sources[0].path, self._vocabulary.size)
        constraint.begin()
        return constraint

    def _find_fault(self, source: _Part, deadline: float) -> None:
        """Raise the error of the innermost part of a schema that does not compile by itself, if there is one."""
        schema, place = source.schema, source.path
        fault = self._fault(schema, place, source)
        if not fault:
            return
        found = True
        while found and time.monotonic() < deadline:
            found = False
            for inner, name in parts(schema):
                tried = self._fault(inner, f"{place}.{name}", source)
                if tried:
                    schema, place, fault, found = inner, f"{place}.{name}", tried, True
                    break
                if time.monotonic() > deadline:
                    break
        guilty: list[str] = []
        for key in schema if isinstance(schema, dict) else {}:
            if time.monotonic() < deadline and not self._fault(_without(key, schema), place, source):
                guilty.append(key)
        raise refused(".".join([place, *guilty]) if len(guilty) == 1 else place, f"cannot be expressed as a grammar: {_reason(fault)}")

    def _fault(self, schema: JSON, path: str, source: _Part) -> str:
        return self._check.fault(json.dumps({"grammars": [{"json_schema": prepared(schema, path, source.schema)}]}))

    def _reasoning(self, format: ToolFormat, prompt_end: str) -> tuple[str, str]:
        """What may come before the reply proper: a term, and the rules that it needs."""
        opening, closing = format.reasoning
        until = "think[lazy]: /(?s:.*)/ " + json.dumps(closing) + "\nTHINK_END: /[ \\n]{0,4}/\n"
        if format.opens_reasoning(prompt_end):
            return "think THINK_END", until
        # A vocabulary without a token for it belongs to a model that was not taught to reason.
        knows = opening.startswith(tuple(self._vocabulary.controls)) or len(self._vocabulary.tokenize(opening.strip(), special=True)) == 1
        if knows and not prompt_end.rstrip().endswith(closing.strip()):
            return f"({json.dumps(opening)} think THINK_END)?", until
        return "", ""

    def _tokenizer(self, markers: tuple[str, ...]) -> LLTokenizer:
        """The vocabulary as llguidance wants it.

        Control tokens can never be part of a text, except the format's own markers: those are ordinary text to a grammar.
        """
        with self._building:
            if markers not in self._tokenizers:
                self._tokenizers[markers] = _tokenizer(self._vocabulary, markers)
            return self._tokenizers[markers]


def _reply_schema(wanted: JSONObject | None) -> _Part | None:
    """The JSON schema that `response_format` asks for."""
    kind = wanted.get("type", "text") if wanted is not None else "text"
    if wanted is None or kind == "text":
        return None
    if kind == "json_object":
        return _Part({"type": "object"}, "response_format")
    if kind != "json_schema":
        raise BadRequest("response_format.type must be text, json_object or json_schema.", param="response_format.type")
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not isinstance(schema, dict):
        raise BadRequest("response_format.json_schema.schema must be an object.", param="response_format.json_schema.schema")
    return _Part(schema, "response_format.json_schema.schema")


def _parameters(tools: dict[int, JSONObject]) -> list[_Part]:
    """The schemas of the tools' arguments."""
    sources: list[_Part] = []
    for index, tool in tools.items():
        function, path = tool.get("function"), f"tools.{index}.function.parameters"
        parameters = (function.get("parameters") if isinstance(function, dict) else None) or {"type": "object", "properties": {}}
        if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
            raise refused(path, "must be the schema of an object")
        sources.append(_Part({"type": "object", **parameters}, path))
    return sources


def _without(key: str, schema: JSON) -> JSON:
    return {name: value for name, value in schema.items() if name != key} if isinstance(schema, dict) else schema


def _reason(fault: str) -> str:
    """llguidance's first line; a regular expression's error has its reason in the last."""
    lines = fault.replace("<non-verbose/>", "").strip().splitlines() or ["unknown"]
    if lines[0].startswith("oneOf constraints"):
        return "a value might fit two of oneOf; say anyOf, or give each an own constant"
    return (
        (lines[-1] if lines[0].startswith("regex parse error") else lines[0]).removeprefix("error: ").removeprefix("Unsatisfiable schema: ")
    )


def _tokenizer(vocabulary: Vocabulary, markers: tuple[str, ...]) -> LLTokenizer:
    pieces = [vocabulary.piece(token, special=True) for token in range(vocabulary.size)]
    for text, token in vocabulary.controls.items():
        if text not in markers:
            pieces[token] = b"\xff" + pieces[token]  # llguidance's sign of a token that is no text
    tokenize = ctypes.cast(native._lib.llama_tokenize, ctypes.c_void_p).value
    ends = [token for token in range(vocabulary.size) if vocabulary.ends(token)]
    return LLTokenizer.from_llamacpp(  # type: ignore[attr-defined,no-any-return]
        tokens=pieces, vocab_ptr=vocabulary.address, tokenize_fptr=tokenize, eos_token=ends, slices=None
    )

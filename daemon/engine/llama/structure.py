"""From what a request asks of its reply (`response_format`, `tool_choice`) to a grammar, and to the constraint that holds the reply to it.

Grammars are llguidance's: several of them refer to one another by `@name`, each in Lark or a JSON schema.
"""

from __future__ import annotations

import ctypes
import json

from llama_cpp import llama_cpp as native
from llguidance import LLMatcher, LLParserLimits, LLTokenizer

from daemon.engine.llama.constraint import Constraint
from daemon.engine.llama.formats.base import ToolFormat
from daemon.engine.llama.json_schema import prepared
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.engine.llama.protocol import GenerateCall
from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject

_REPLY = "response_format"
_CALLS = "tool_choice"
_LIMITS = LLParserLimits(verbose_errors=False)


class Structures:
    """The constraints of one model's replies. For one thread; what it returns is for another.

    The tokenizer that llguidance needs is built with the first constraint, which takes a few tenths of a second.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._tokenizers: dict[tuple[str, ...], LLTokenizer] = {}

    def constraint(self, call: GenerateCall, format: ToolFormat, prompt_end: str = "") -> Constraint | None:
        """What the reply to this call must be; None if it is free.

        Args:
            prompt_end: the last characters of the rendered prompt: it may have opened the reasoning already.

        Raises:
            BadRequest: a value that means nothing, a tool that is not there, or a schema that cannot be expressed; names the part.
        """
        reply = _reply_schema(call.response_format)
        tools = _forced(call)
        if reply is None and tools is None:
            return None
        if tools is not None:
            lark = format.call_grammar(_prepared_tools(tools), parallel=call.parallel_tool_calls)
            return self._compiled(LLMatcher.grammar_from_lark(lark), _CALLS, format)
        return self._compiled(json.dumps({"grammars": [{"json_schema": reply}]}), _REPLY, format)

    def _compiled(self, grammar: str, param: str, format: ToolFormat) -> Constraint:
        matcher = LLMatcher(self._tokenizer(format.markers), grammar, log_level=0, limits=_LIMITS)
        if matcher.is_error():
            raise BadRequest(f"{param} cannot be expressed: {matcher.get_error().splitlines()[0]}.", param=param)
        return Constraint(matcher, param, self._vocabulary.size)

    def _tokenizer(self, markers: tuple[str, ...]) -> LLTokenizer:
        """The vocabulary as llguidance wants it.

        Control tokens can never be part of a text, except the format's own markers: those are ordinary text to a grammar.
        """
        if markers not in self._tokenizers:
            self._tokenizers[markers] = _tokenizer(self._vocabulary, markers)
        return self._tokenizers[markers]


def _reply_schema(wanted: JSONObject | None) -> JSONObject | None:
    """The JSON schema that `response_format` asks for."""
    kind = wanted.get("type", "text") if wanted is not None else "text"
    if wanted is None or kind == "text":
        return None
    if kind == "json_object":
        return prepared({"type": "object"}, _REPLY)
    if kind != "json_schema":
        raise BadRequest("response_format.type must be text, json_object or json_schema.", param="response_format.type")
    inner = wanted.get("json_schema")
    schema = inner.get("schema") if isinstance(inner, dict) else None
    if not isinstance(schema, dict):
        raise BadRequest("response_format.json_schema.schema must be an object.", param="response_format.json_schema.schema")
    return prepared(schema, "response_format.json_schema.schema")


def _forced(call: GenerateCall) -> tuple[JSONObject, ...] | None:
    """The tools of which one must be called; None if none must."""
    choice = call.tool_choice
    if choice in ("auto", "none", None):
        return None
    if choice == "required":
        if not call.tools:
            raise BadRequest("tool_choice is required, but there are no tools.", param="tool_choice")
        return tuple(call.tools)
    name = _function_name(choice)
    if name is None:
        raise BadRequest('tool_choice must be auto, none, required or {"type": "function", "function": {"name": …}}.', param="tool_choice")
    chosen = tuple(tool for tool in call.tools if _name(tool) == name)
    if not chosen:
        raise BadRequest(f"tool_choice names {name}, which is not among the tools.", param="tool_choice")
    return chosen[:1]


def _function_name(choice: JSON) -> str | None:
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None


def _name(tool: JSONObject) -> str | None:
    return _function_name(tool)


def _prepared_tools(tools: tuple[JSONObject, ...]) -> tuple[JSONObject, ...]:
    ready: list[JSONObject] = []
    for index, tool in enumerate(tools):
        function = tool.get("function")
        if isinstance(function, dict):
            parameters = function.get("parameters")
            schema = parameters if isinstance(parameters, dict) else {}
            whole: JSONObject = {**function, "parameters": prepared({"type": "object", **schema}, f"tools.{index}.function.parameters")}
            ready.append({**tool, "function": whole})
    return tuple(ready)


def _tokenizer(vocabulary: Vocabulary, markers: tuple[str, ...]) -> LLTokenizer:
    pieces = [vocabulary.piece(token, special=True) for token in range(vocabulary.size)]
    plain = {marker.encode() for marker in markers}
    for token in vocabulary.control_tokens:
        if pieces[token] not in plain:
            pieces[token] = b"\xff" + pieces[token]  # llguidance's sign of a token that is no text
    tokenize = ctypes.cast(native._lib.llama_tokenize, ctypes.c_void_p).value
    ends = [token for token in range(vocabulary.size) if vocabulary.ends(token)]
    return LLTokenizer.from_llamacpp(  # type: ignore[attr-defined,no-any-return]
        tokens=pieces, vocab_ptr=vocabulary.address, tokenize_fptr=tokenize, eos_token=ends, slices=None
    )

"""Tool calls out of a reply: what a format reads, what the client gets."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from daemon import json_text
from daemon.engine.base import Delta
from daemon.engine.llama.formats.source import Malformed
from daemon.records import JSON, JSONObject


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a tool. `arguments` is the text of a JSON object, as the model wrote it where it wrote JSON."""

    name: str
    arguments: str

    def __post_init__(self) -> None:
        """Raises Malformed for a text with half a character in it, which cannot be sent."""
        try:
            self.arguments.encode()
        except UnicodeEncodeError as error:
            raise Malformed("has half a character in its arguments") from error

    def deltas(self, index: int) -> list[Delta]:
        """OpenAI's deltas: who is called, then with what."""
        opening: JSONObject = {
            "index": index,
            "id": f"call_{secrets.token_hex(12)}",
            "type": "function",
            "function": {"name": self.name, "arguments": ""},
        }
        return [Delta(tool_calls=(opening,)), Delta(tool_calls=({"index": index, "function": {"arguments": self.arguments}},))]


def functions(tools: tuple[JSONObject, ...]) -> dict[str, JSONObject]:
    """The JSON schema of each function's arguments, by its name; an empty schema where a tool has none."""
    found: dict[str, JSONObject] = {}
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, dict) and isinstance(name := function.get("name"), str):
            parameters = function.get("parameters")
            found[name] = parameters if isinstance(parameters, dict) else {}
    return found


def calls_of_json(text: str, *, name: str = "name", arguments: tuple[str, ...] = ("arguments", "parameters")) -> tuple[Call, ...]:
    """The calls in one JSON object, or in an array of such objects.

    Args:
        name: the field that names the tool.
        arguments: the fields that may hold its arguments: an object, OpenAI's text of an object, or nothing for no arguments.
    """
    value = parsed(text)
    if isinstance(value, list):
        if not value:
            raise Malformed("calls nothing")
        return tuple(_call(item, element, name, arguments) for item, element in zip(value, _elements(text), strict=True))
    return (_call(value, text, name, arguments),)


def calls_of_named_objects(text: str) -> tuple[Call, ...]:
    """The calls in an array of objects, each with one field: the tool's name, and its arguments as the value."""
    value = parsed(text)
    calls: list[Call] = []
    for item, element in zip(value, _elements(text), strict=True) if isinstance(value, list) and value else ():
        if not isinstance(item, dict) or len(item) != 1:
            raise Malformed("has no name")
        name = next(iter(item))
        calls.append(Call(name, argument_text(item[name], member(element, name))))
    if not calls:
        raise Malformed("calls nothing")
    return tuple(calls)


def parsed(text: str) -> JSON:
    """The value of a JSON text. Raises Malformed for one that is none, or that no JSON reader of ours takes."""
    try:
        return json_text.parse(text)
    except ValueError as error:
        raise Malformed("is not valid JSON") from error


def argument_text(value: JSON, text: str) -> str:
    """The arguments as the text of a JSON object: `text`, which `value` was read from, or what OpenAI's form holds as a text."""
    if value is None:
        return "{}"
    if isinstance(value, str):
        text = value
        value = parsed(text)
    if not isinstance(value, dict):
        raise Malformed("has arguments that are no object")
    return text.strip()


def _call(value: JSON, text: str, name: str, arguments: tuple[str, ...]) -> Call:
    if not isinstance(value, dict) or not isinstance(called := value.get(name), str):
        raise Malformed(f"has no {name}")
    field = next((field for field in arguments if field in value), "")
    return Call(called, argument_text(value[field], member(text, field)) if field else "{}")


def member(text: str, key: str) -> str:
    """The text of a field's value in `text`, a valid JSON object; of the last one if there are several, as JSON readers do."""
    decoder = json.JSONDecoder()
    found, at = "", text.index("{") + 1
    while (at := _skip(text, at)) < len(text) and text[at] == '"':
        field, at = decoder.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = decoder.raw_decode(text, start)
        if field == key:
            found = text[start:at]
        at = _skip(text, at) + 1
    return found


def _elements(text: str) -> list[str]:
    """The text of each element of a valid JSON array that is not empty."""
    decoder = json.JSONDecoder()
    found, at = [], text.index("[")
    while text[at] != "]":
        start = _skip(text, at + 1)
        _, end = decoder.raw_decode(text, start)
        found.append(text[start:end])
        at = _skip(text, end)
    return found


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in " \t\n\r":
        at += 1
    return at

"""Reads replies as the engine does, and checks on the way what holds for every format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from daemon.engine.base import Delta
from daemon.engine.llama.formats.base import ToolFormat
from daemon.records import JSONObject


def tool(name: str, **properties: JSONObject) -> JSONObject:
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": dict(properties)}}}


READ = tool("read", path={"type": "string"}, limit={"type": "integer"})
LIST = tool("list")


@dataclass
class Reply:
    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    note: str = field(default="", compare=False)


def read_reply(
    form: ToolFormat, text: str, *, tools: tuple[JSONObject, ...] = (READ, LIST), prompt_end: str = "", sizes: tuple[int, ...] = (1, 2, 5)
) -> Reply:
    """What a client gets, which must be the same however the reply is cut into pieces."""
    whole = _assembled(form, [text], tools, prompt_end)
    for size in sizes:
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert _assembled(form, pieces, tools, prompt_end) == whole, f"in pieces of {size}"
    return whole


def _assembled(form: ToolFormat, pieces: list[str], tools: tuple[JSONObject, ...], prompt_end: str) -> Reply:
    parser = form.parser(tools, prompt_end)
    reply = Reply()
    for delta in _deltas(parser.push(piece) for piece in pieces):
        _add(reply, delta)
    for delta in _deltas([parser.finish(), parser.finish()]):
        _add(reply, delta)
    reply.note = parser.note
    return reply


def _deltas(pushed: Iterator[list[Delta]] | list[list[Delta]]) -> Iterator[Delta]:
    for deltas in pushed:
        yield from deltas


def _add(reply: Reply, delta: Delta) -> None:
    assert delta.text or delta.reasoning or delta.tool_calls
    reply.text += delta.text
    reply.reasoning += delta.reasoning
    for call in delta.tool_calls:
        function = call["function"]
        assert isinstance(function, dict)
        arguments = function["arguments"]
        assert isinstance(arguments, str)
        if "name" in function:
            assert call["index"] == len(reply.calls)
            assert call["type"] == "function"
            assert str(call["id"]).startswith("call_")
            reply.calls.append((str(function["name"]), arguments))
        else:
            assert call.keys() == {"index", "function"}
            assert call["index"] == len(reply.calls) - 1
            name, before = reply.calls[-1]
            reply.calls[-1] = (name, before + arguments)

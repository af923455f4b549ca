"""Puts the pieces of a reply together, as they are streamed and as they are stored."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from daemon.engine.base import Delta
from daemon.records import JSON, JSONObject, Message


@dataclass(slots=True)
class _ToolCall:
    id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)


class ReplyBuilder:
    """Collects deltas into one assistant message."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _ToolCall] = {}

    @property
    def begun(self) -> bool:
        return bool(self._text or self._reasoning or self._calls)

    @property
    def has_tool_calls(self) -> bool:
        return bool(self._calls)

    def add(self, delta: Delta) -> JSONObject:
        """Take one delta in; returns it in OpenAI form, with what clients insist on in a call's first piece."""
        out: JSONObject = {}
        if delta.text:
            self._text.append(delta.text)
            out["content"] = delta.text
        if delta.reasoning:
            self._reasoning.append(delta.reasoning)
            out["reasoning_content"] = delta.reasoning
        calls: list[JSON] = [self._add_call(call) for call in delta.tool_calls]
        if calls:
            out["tool_calls"] = calls
        return out

    def message(self) -> Message:
        """The whole reply so far."""
        text = "".join(self._text)
        message: Message = {"role": "assistant", "content": text or (None if self._calls else "")}
        if self._reasoning:
            message["reasoning_content"] = "".join(self._reasoning)
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
                for _, call in sorted(self._calls.items())
            ]
        return message

    def _add_call(self, delta: JSONObject) -> JSONObject:
        index = delta.get("index")
        place = index if isinstance(index, int) else 0
        function = delta.get("function")
        piece = function if isinstance(function, dict) else {}
        name, arguments = piece.get("name"), piece.get("arguments")
        given = arguments if isinstance(arguments, str) else ""
        call = self._calls.get(place)
        if call is not None:
            call.arguments.append(given)
            return {"index": place, "function": {"arguments": given}}
        asked = delta.get("id")
        call = _ToolCall(asked if isinstance(asked, str) and asked else f"call_{secrets.token_hex(12)}")
        call.name = name if isinstance(name, str) else ""
        call.arguments.append(given)
        self._calls[place] = call
        return {"index": place, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": given}}

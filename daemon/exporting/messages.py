"""Messages as other programs take them: the fields of the chat form and no others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daemon.records import JSON, JSONObject, Message
from daemon.tool_forms import chat_tools

_KEPT = ("name", "tool_calls", "tool_call_id")


def chat(messages: Iterable[Message], *, reasoning: bool) -> list[JSON]:
    """`reasoning`: with `reasoning_content`, where there is some."""
    return [_chat(message, reasoning) for message in messages]


def with_tools(line: JSONObject, request: JSONObject) -> JSONObject:
    """The line with the request's functions, if it had any."""
    tools: Sequence[JSONObject] = chat_tools(request)
    return {**line, "tools": list(tools)} if tools else line


def _chat(message: Message, reasoning: bool) -> JSONObject:
    role = message.get("role")
    content = message.get("content")
    kept: JSONObject = {"role": "system" if role == "developer" else role}
    kept["content"] = content or (None if message.get("tool_calls") else "")
    for name in (*_KEPT, "reasoning_content") if reasoning else _KEPT:
        if message.get(name):
            kept[name] = message[name]
    return kept

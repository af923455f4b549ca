"""One message out of a file, checked and brought into OpenAI chat form."""

from __future__ import annotations

import json

from daemon.errors import DataError
from daemon.records import JSON, JSONObject, Message

_ROLES = {
    "system": "system",
    "developer": "developer",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",  # the name before there were tools
}
_TEXTS = ("name", "tool_call_id", "reasoning_content", "refusal")
_MAX_ID_CHARACTERS = 200


def check_message(value: JSON) -> Message:
    """The message with the fields that we know.

    Raises:
        DataError: no message.
    """
    if not isinstance(value, dict):
        raise DataError("A message is not an object.")
    role = value.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise DataError(f"A message has the role {str(role)[:40]!r}.")
    message: Message = {"role": _ROLES[role], "content": _content(value.get("content"))}
    for name in _TEXTS:
        text = value.get(name)
        if text is None:
            continue
        if not isinstance(text, str):
            raise DataError(f"A message's '{name}' is no text.")
        message[name] = text
    calls = tool_calls(value)
    if calls:
        message["tool_calls"] = calls
    return message


def tool_calls(value: JSONObject) -> list[JSON]:
    """A message's calls, those in the form of before there were tools among them."""
    given = value.get("tool_calls")
    if given is None and isinstance(value.get("function_call"), dict):
        given = [{"function": value["function_call"]}]
    if given is None:
        return []
    if not isinstance(given, list):
        raise DataError("A message's 'tool_calls' is no array.")
    return [_call(call, number) for number, call in enumerate(given)]


def text_of(content: JSON) -> str:
    """The plain text of a content: a string, parts, or null."""
    if isinstance(content, list):
        return "\n".join(text for part in content if isinstance(part, dict) and isinstance(text := part.get("text"), str))
    return content if isinstance(content, str) else ""


def call(name: str, arguments: JSON, call_id: str) -> JSONObject:
    """A tool call in chat form; arguments that are no text become JSON text."""
    text = arguments if isinstance(arguments, str) else json.dumps({} if arguments is None else arguments, ensure_ascii=False)
    return {"id": call_id[:_MAX_ID_CHARACTERS], "type": "function", "function": {"name": name, "arguments": text}}


def _call(value: JSON, number: int) -> JSON:
    function = value.get("function") if isinstance(value, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(value, dict) or not isinstance(function, dict) or not isinstance(name, str) or not name:
        raise DataError("A tool call names no function.")
    given = value.get("id")
    return call(name, function.get("arguments"), given if isinstance(given, str) and given else f"call_{number}")


def _content(value: JSON) -> JSON:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(part, dict) for part in value):
        return value
    raise DataError("A message's content is neither a text nor parts.")

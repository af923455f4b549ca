"""OpenAI's chat form: lines of a fine-tuning file, and requests kept beside their responses."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, ImportedTurn, from_messages
from daemon.importing.messages import check_message
from daemon.records import JSON, JSONObject, Message, Usage


def is_pair(value: JSONObject) -> bool:
    """Whether it is a request beside its response."""
    return isinstance(value.get("response"), dict) and ("messages" in value or isinstance(value.get("request"), dict))


def session_of_line(value: JSONObject) -> ImportedSession:
    """`{"messages": […], "tools": […]}`, as for fine-tuning. Raises `DataError`."""
    messages = value.get("messages")
    if not isinstance(messages, list):
        raise DataError("'messages' is no array.")
    return from_messages(messages, tools=functions(value))


def session_of_pair(value: JSONObject) -> ImportedSession:
    """`{"request": {"messages": …}, "response": {"choices": …}}`; a request's fields may lie beside `response` too. Raises `DataError`."""
    inner = value.get("request")
    request = inner if isinstance(inner, dict) else value
    response = value["response"]
    if not isinstance(response, dict):
        raise DataError("'response' is no object.")
    turns = tuple(_turn(checked(request.get("messages")), reply, response) for reply in replies(response))
    return ImportedSession(turns, tools=functions(request))


def checked(messages: JSON) -> tuple[Message, ...]:
    if not isinstance(messages, list) or not messages:
        raise DataError("There are no messages.")
    return tuple(check_message(message) for message in messages)


def replies(response: JSONObject) -> list[tuple[Message, str]]:
    """The reply of every choice, each with its finish reason. Raises `DataError` where there is none."""
    choices = response.get("choices")
    if not isinstance(choices, list) or not choices:
        raise DataError("The response has no choices.")
    found = []
    for choice in choices:
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise DataError("A choice of the response holds no message.")
        reason = choice.get("finish_reason")
        found.append((check_message({"role": "assistant", **message}), reason if isinstance(reason, str) else ""))
    return found


def functions(value: JSONObject) -> tuple[JSONObject, ...]:
    """The tools that are functions; `functions` is what they were called before."""
    tools, old = value.get("tools"), value.get("functions")
    if tools is None and isinstance(old, list):
        tools = [{"type": "function", "function": function} for function in old]
    if tools is None:
        return ()
    if not isinstance(tools, list):
        raise DataError("'tools' is no array.")
    return tuple(tool for tool in tools if isinstance(tool, dict) and isinstance(tool.get("function"), dict))


def usage_of(value: JSON) -> Usage:
    """Token counts as far as they are there."""
    if not isinstance(value, dict):
        return Usage(0, 0)
    details = value.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else value.get("cached_tokens")
    return Usage(count(value.get("prompt_tokens")), count(value.get("completion_tokens")), count(cached))


def count(value: JSON) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 40 else 0


def _turn(messages: Sequence[Message], reply: tuple[Message, str], response: JSONObject) -> ImportedTurn:
    model, created = response.get("model"), response.get("created")
    return ImportedTurn(
        tuple(messages),
        reply[0],
        created_at=float(created) if isinstance(created, int | float) and not isinstance(created, bool) and 0 < created < 1e11 else None,
        model=model if isinstance(model, str) else "",
        finish_reason=reply[1],
        usage=usage_of(response.get("usage")),
    )

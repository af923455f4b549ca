"""ShareGPT's form: `conversations` of `{"from", "value"}`; tool calls as LLaMA-Factory writes them."""

from __future__ import annotations

import json

from daemon import json_text
from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, from_messages, stable_id
from daemon.importing.messages import call
from daemon.records import JSON, JSONObject, Message

_ROLES = {
    "system": "system",
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "model": "assistant",
    "bing": "assistant",
    "chatgpt": "assistant",
    "function_call": "call",
    "observation": "tool",
    "tool": "tool",
}


def session_of(value: JSONObject) -> ImportedSession:
    """One line. Raises `DataError`."""
    entries = value.get("conversations")
    if not isinstance(entries, list):
        raise DataError("'conversations' is no array.")
    messages: list[JSON] = []
    system = value.get("system")
    if isinstance(system, str) and system:
        messages.append({"role": "system", "content": system})
    calls = _Calls(stable_id("call", json_text.canonical(entries[:2]).encode("utf-8", "surrogatepass")))
    for entry in entries:
        role, text = _entry(entry)
        if role == "call":
            calls.made(messages, text)
        elif role == "tool":
            messages.append(calls.answered(text))
        else:
            messages.append({"role": role, "content": text})
    given = value.get("id")
    return from_messages(messages, tools=_tools(value.get("tools")), id=given[:200] if isinstance(given, str) else "")


class _Calls:
    """Gives calls the ids that this form lacks, and answers them in their order."""

    def __init__(self, name: str) -> None:
        """`name` is the conversation's own: by the ids of its calls Reef finds the session of a request."""
        self._name = name
        self._count = 0
        self._open: list[str] = []

    def made(self, messages: list[JSON], text: str) -> None:
        """A call, or an array of them; what the assistant said just before belongs to the same message."""
        try:
            value = json_text.parse(text)
        except ValueError as error:
            raise DataError(f"A function call is no JSON: {error}.") from error
        made: list[JSON] = []
        self._open.clear()
        for one in value if isinstance(value, list) else [value]:
            name = one.get("name") if isinstance(one, dict) else None
            if not isinstance(one, dict) or not isinstance(name, str) or not name:
                raise DataError("A function call has no name.")
            call_id = f"{self._name}_{self._count}"
            self._count += 1
            self._open.append(call_id)
            made.append(call(name, one.get("arguments", one.get("parameters")), call_id))
        last = messages[-1] if messages else None
        if isinstance(last, dict) and last.get("role") == "assistant" and "tool_calls" not in last:
            last["tool_calls"] = made
        else:
            messages.append({"role": "assistant", "content": None, "tool_calls": made})

    def answered(self, text: str) -> Message:
        call_id = self._open.pop(0) if self._open else ""
        return {"role": "tool", "tool_call_id": call_id, "content": text} if call_id else {"role": "tool", "content": text}


def _entry(entry: JSON) -> tuple[str, str]:
    if not isinstance(entry, dict):
        raise DataError("An entry of the conversation is not an object.")
    who, text = entry.get("from", entry.get("role")), entry.get("value", entry.get("content"))
    if not isinstance(who, str) or who.lower() not in _ROLES:
        raise DataError(f"An entry is from {str(who)[:40]!r}.")
    if not isinstance(text, str):
        raise DataError("An entry's value is no text.")
    return _ROLES[who.lower()], text


def _tools(value: JSON) -> tuple[JSONObject, ...]:
    """Functions as JSON text or as they are, bare or wrapped."""
    if isinstance(value, str) and value.strip():
        try:
            value = json_text.parse(value)
        except ValueError as error:
            raise DataError(f"'tools' is no JSON: {error}.") from error
    if not isinstance(value, list):
        return ()
    tools: list[JSONObject] = []
    for tool in value:
        if isinstance(tool, dict):
            tools.append(tool if isinstance(tool.get("function"), dict) else {"type": "function", "function": tool})
    return tuple(tools)


def arguments_of(text: JSON) -> JSON:
    """A call's arguments as a value, for writing this form; text that is no JSON stays text."""
    if not isinstance(text, str):
        return text
    try:
        return json_text.parse(text)
    except ValueError:
        return text


def call_text(calls: list[JSONObject]) -> str:
    """What a `function_call` entry holds."""
    return json.dumps(calls[0] if len(calls) == 1 else calls, ensure_ascii=False)

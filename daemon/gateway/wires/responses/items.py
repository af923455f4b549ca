"""The input of the responses wire as messages in chat form.

One reply of a model is several items there: its reasoning, its text, each of its tool calls. Here they are one assistant message again, as
it was recorded when the reply was made, so that a conversation that goes on has the same beginning on every wire.
"""

from __future__ import annotations

import json

from daemon.errors import BadRequest
from daemon.gateway.wires.fields import array, bad
from daemon.gateway.wires.responses.parts import content_of, joined_text, unsealed
from daemon.records import JSON, JSONObject, Message

_ROLES = frozenset({"user", "assistant", "system", "developer"})
_STATELESS = "Reef keeps no state between requests on this wire: send the whole conversation in 'input'."


def messages_of(body: JSONObject) -> tuple[Message, ...]:
    """`instructions` as a system message, then `input`: a text of the user, or items.

    Items of hosted tools (`web_search_call`, …) are left out; there is nothing in them that another model could go on from.

    Raises:
        BadRequest: names the item that is wrong, or that refers to what is not here.
    """
    builder = _Builder()
    instructions = body.get("instructions")
    if isinstance(instructions, str):
        if instructions:
            builder.add({"role": "system", "content": instructions})
    elif isinstance(instructions, list):
        builder.take_all(instructions, "instructions")
    elif instructions is not None:
        raise bad("instructions", "a text", instructions)
    given = body.get("input")
    if isinstance(given, str):
        builder.add({"role": "user", "content": given})
    else:
        builder.take_all(array(body, "input"), "input")
    messages = builder.messages()
    if not messages:
        raise BadRequest("'input' must hold a text or at least one item.", param="input")
    return messages


class _Builder:
    """Puts items together. An assistant message stays open for the items that follow; what it says is joined when it is closed."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._open: Message | None = None
        self._contents: list[JSON] = []  # of the open message
        self._thoughts: list[str] = []
        self._latest = ""  # the type of the item that was added to it last
        self._record = ""  # the record that its items name

    def add(self, message: Message) -> None:
        """A message that is complete."""
        self._close()
        self._messages.append(message)

    def messages(self) -> tuple[Message, ...]:
        """All of them; nothing is taken after this."""
        self._close()
        return tuple(self._messages)

    def take_all(self, items: list[JSON], name: str) -> None:
        for index, item in enumerate(items):
            place = f"{name}[{index}]"
            if not isinstance(item, dict):
                raise bad(place, "an object", item)
            kind = item.get("type", "message" if "role" in item else None)
            if not isinstance(kind, str):
                raise bad(f"{place}.type", "a text", kind)
            self._take(item, kind, place)

    def _take(self, item: JSONObject, kind: str, place: str) -> None:
        if kind == "message":
            self._take_message(item, place)
        elif kind == "reasoning":
            self._take_reasoning(item, place)
        elif kind == "item_reference":
            raise BadRequest(f"'{place}' refers to an item that is not here.", _STATELESS, param=place)
        elif "compaction" in kind:
            message = f"'{place}' is a summary that only the server which made it can read."
            raise BadRequest(message, "Let the agent summarise the conversation itself.", param=place)
        elif kind == "function_call" or (kind.endswith("_call") and isinstance(item.get("call_id"), str)):
            self._take_call(item, kind, place)
        elif kind == "function_call_output" or (kind.endswith("_output") and isinstance(item.get("call_id"), str)):
            self._take_output(item, place)

    def _take_message(self, item: JSONObject, place: str) -> None:
        role = item.get("role")
        if not isinstance(role, str) or role not in _ROLES:
            raise bad(f"{place}.role", "one of user, assistant, system, developer", role)
        content = content_of(item.get("content"), f"{place}.content")
        if role != "assistant":
            self.add({"role": role, "content": content})
            return
        self._assistant("message", item)
        self._contents.append(content)

    def _take_reasoning(self, item: JSONObject, place: str) -> None:
        """What another server has encrypted is for that server alone; what it says in the open is kept."""
        said = joined_text(item.get("content"), f"{place}.content") or joined_text(item.get("summary"), f"{place}.summary")
        said = said or unsealed(item.get("encrypted_content"))
        if said:
            self._assistant("reasoning", item)
            self._thoughts.append(said)

    def _take_call(self, item: JSONObject, kind: str, place: str) -> None:
        name = item.get("name") or ("" if kind == "function_call" else kind.removesuffix("_call"))
        if not isinstance(name, str) or not name:
            raise bad(f"{place}.name", "a text", item.get("name"))
        arguments = item.get("arguments") if kind == "function_call" else _arguments(item)
        if arguments is not None and not isinstance(arguments, str):
            raise bad(f"{place}.arguments", "a text", arguments)
        call: JSONObject = {
            "id": _call_id(item, place),
            "type": "function",
            "function": {"name": name, "arguments": "{}" if arguments is None else arguments},
        }
        message = self._assistant("call", item)
        calls = message.setdefault("tool_calls", [])
        if isinstance(calls, list):
            calls.append(call)

    def _take_output(self, item: JSONObject, place: str) -> None:
        output = item.get("output")
        if isinstance(output, dict):  # of a tool that answers with an object of its own
            content: JSON = json.dumps(output, ensure_ascii=False)
        else:
            content = content_of(output, f"{place}.output")
        self.add({"role": "tool", "tool_call_id": _call_id(item, place), "content": content})

    def _assistant(self, kind: str, item: JSONObject) -> Message:
        """The assistant message that an item belongs to: the open one, unless the item begins another reply."""
        record = _record_of(item)
        other = bool(record and self._record and record != self._record)
        if self._open is None or other or kind == self._latest == "message":
            self._close()
            self._open = {"role": "assistant", "content": ""}
            self._messages.append(self._open)
        self._latest = kind
        self._record = record or self._record
        return self._open

    def _close(self) -> None:
        if self._open is not None:
            self._open["content"] = _joined(self._contents)
            if self._thoughts:
                self._open["reasoning_content"] = "".join(self._thoughts)
        self._open, self._contents, self._thoughts, self._latest, self._record = None, [], [], "", ""


def _joined(contents: list[JSON]) -> JSON:
    """One content of several: a text, or parts if any of them has parts."""
    texts = [content for content in contents if isinstance(content, str)]
    if len(texts) == len(contents):
        return "".join(texts)
    parts: list[JSON] = []
    for content in contents:
        if isinstance(content, list):
            parts += content
        elif content:
            parts.append({"type": "text", "text": content})
    return parts


def _record_of(item: JSONObject) -> str:
    """The record that an item's id names, if the item is ours and its client kept the id: see `responses_output`."""
    identity = item.get("id")
    parts = identity.split("_") if isinstance(identity, str) else []
    return parts[1] if len(parts) == 3 and parts[0] in ("msg", "rs", "fc") else ""


def _call_id(item: JSONObject, place: str) -> str:
    found = item.get("call_id") or item.get("id")
    if not isinstance(found, str):
        raise bad(f"{place}.call_id", "a text", item.get("call_id"))
    return found


def _arguments(item: JSONObject) -> str:
    """What a tool that is no function was called with (`custom`, `local_shell`, `apply_patch`, …), as the arguments of one."""
    given = item.get("arguments")
    if isinstance(given, str):
        return given
    for name in ("input", "action", "operation", "actions"):
        value = item.get(name)
        if value is not None:
            return json.dumps(value if isinstance(value, dict) else {name: value}, ensure_ascii=False)
    return "{}"

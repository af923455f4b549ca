"""Keys of conversations: what stays the same of a message when a client sends it back.

Clients echo our replies with small differences: `content` null or "", text or parts, arguments with other
spacing, reasoning left out, cache marks that move. A key ignores these. It is taken over redacted text, so that
a request before redaction and its record after it have the same key.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from daemon import json_text
from daemon.experience.packing import digest, to_json
from daemon.fingerprint import fingerprint
from daemon.records import JSON, Message
from daemon.redact import redact_text

ROOT = b""
_REMEMBERED = 20_000


def text_of(content: JSON) -> str:
    """The plain text of a message's content: a string, parts, or null."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for part in content if isinstance(part, dict) and isinstance(text := part.get("text"), str))
    return ""


class _Known:
    """Keys of messages seen before. A conversation resends its history with every turn; looking here costs a tenth of making a key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: OrderedDict[int, bytes] = OrderedDict()

    def get(self, name: int) -> bytes | None:
        return self._keys.get(name)

    def put(self, name: int, key: bytes) -> None:
        with self._lock:
            self._keys[name] = key
            if len(self._keys) > _REMEMBERED:
                self._keys.popitem(last=False)


_known = _Known()


def message_key(message: Message) -> bytes:
    """128 bits that name what one message says: role, text, other parts, names and arguments of tool calls."""
    name = fingerprint(message)
    key = _known.get(name)
    if key is None:
        key = _make_key(message)
        _known.put(name, key)
    return key


def conversation_keys(messages: Iterable[Message], parent: bytes = ROOT) -> list[bytes]:
    """One key a message; each includes all before it, so equal keys mean equal conversations up to there."""
    keys = []
    for message in messages:
        parent = digest(parent, message_key(message))
        keys.append(parent)
    return keys


def reply_key(prompt_keys: Sequence[bytes], reply: Message) -> bytes:
    """The key of a conversation that ends in our reply."""
    parent = prompt_keys[-1] if prompt_keys else ROOT
    return digest(parent, message_key({**reply, "role": "assistant"}))


def _make_key(message: Message) -> bytes:
    role = message.get("role")
    content = message.get("content")
    parts: list[JSON] = [
        "system" if role == "developer" else role,
        redact_text(text_of(content).strip())[0],
    ]
    if isinstance(content, list):
        parts.extend(part for part in content if isinstance(part, dict) and not isinstance(part.get("text"), str))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        parts.extend(_call(call) for call in calls)
    return digest(to_json(parts))


def _call(call: JSON) -> JSON:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return call
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        arguments, _ = redact_text(arguments)
        with contextlib.suppress(ValueError):  # arguments that are no JSON stay as they are
            arguments = json.dumps(json_text.parse(arguments), sort_keys=True)
    return [function.get("name"), arguments]

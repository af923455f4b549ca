"""Keys of conversations: what stays the same of a message when a client sends it back.

Clients echo our replies with small differences: `content` null or "", text or parts, arguments with other
spacing, reasoning left out, cache marks that move. A key ignores these.

There are two kinds. *Marks* are for this process's memory: numbers over the texts as they came, made while a request waits.
*Keys* are what the database keeps: hashes over redacted texts, so that they tell nothing of a secret, and a request before
redaction and its record after it have the same one.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from daemon import json_text
from daemon.experience.packing import digest, to_json
from daemon.fingerprint import History, fingerprint, history
from daemon.records import JSON, Message
from daemon.redaction.redact import redact_text

ROOT = b""
_REMEMBERED = 20_000
_REMEMBERED_MARKS = 2_000  # conversations, a number for each message


def text_of(content: JSON) -> str:
    """The plain text of a message's content: a string, parts, or null."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(text for part in content if isinstance(part, dict) and isinstance(text := part.get("text"), str))
    return ""


V = TypeVar("V")


class _Known(Generic[V]):
    """What was made of messages seen before. A conversation resends its history with every turn."""

    def __init__(self, capacity: int = _REMEMBERED) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self.keys: OrderedDict[int, V] = OrderedDict()

    def get(self, name: int) -> V | None:
        return self.keys.get(name)

    def put(self, name: int, key: V) -> None:
        with self._lock:
            self.keys[name] = key
            if len(self.keys) > self._capacity:
                self.keys.popitem(last=False)


_known = _Known[bytes]()
_chained = _Known[bytes]()  # by what is before them too
_ends = _Known[bytes]()  # by the fingerprint of a history
_marks = _Known[tuple[int, ...]](_REMEMBERED_MARKS)  # by the same
_calls = _Known[int]()


def message_key(message: Message, known_as: int | None = None) -> bytes:
    """128 bits that name what one message says: role, text, other parts, names and arguments of tool calls.

    `known_as`: its fingerprint, where it is at hand.
    """
    name = fingerprint(message) if known_as is None else known_as
    key = _known.get(name)
    if key is None:
        key = _make_key(message)
        _known.put(name, key)
    return key


def conversation_keys(messages: Iterable[Message], parent: bytes = ROOT) -> list[bytes]:
    """One key a message; each includes all before it, so equal keys mean equal conversations up to there."""
    keys = []
    for message in messages:
        name = hash((parent, fingerprint(message)))
        key = _chained.get(name)
        if key is None:
            key = digest(parent, message_key(message))
            _chained.put(name, key)
        keys.append(key)
        parent = key
    return keys


def conversation_key(messages: Sequence[Message], past: History) -> bytes:
    """The last of `conversation_keys`; `past` is their history."""
    begun = past.known(_ends.keys)
    key = (_ends.get(past.upto[begun - 1]) if begun else None) or ROOT
    begun = begun if key else 0  # forgotten between the two looks
    for message, name in zip(messages[begun:], past.each[begun:], strict=True):
        key = digest(key, message_key(message, name))
    if past.upto:
        _ends.put(past.upto[-1], key)
    return key


def reply_key(prompt_key: bytes, reply: Message) -> bytes:
    """The key of a conversation that ends in our reply; `prompt_key` names what is before it."""
    return digest(prompt_key, message_key(reply if reply.get("role") == "assistant" else {**reply, "role": "assistant"}))


class Marks(tuple[int, ...]):
    """One mark a message; each includes all before it. And the messages' history, by which they are known from here on."""

    past: History
    of: Sequence[Message]


def conversation_marks(messages: Sequence[Message]) -> Marks:
    """One mark a message; each includes all before it. Those of the turn before are remembered."""
    past = history(messages)
    begun = past.known(_marks.keys)
    known = (_marks.get(past.upto[begun - 1]) or ()) if begun else ()
    marks = Marks(known if len(known) == len(messages) else _continued(list(known), messages[len(known) :]))
    if messages:
        _marks.put(past.upto[-1], tuple(marks))
    marks.past, marks.of = past, messages
    return marks


def _continued(marks: list[int], messages: Sequence[Message]) -> list[int]:
    mark = marks[-1] if marks else 0
    for message in messages:
        mark = hash((mark, message_mark(message)))
        marks.append(mark)
    return marks


def history_of(messages: Sequence[Message], keys: Sequence[int]) -> History:
    """The history of `messages`, taken from `keys` if these are their marks."""
    return keys.past if isinstance(keys, Marks) and keys.of is messages else history(messages)


def reply_mark(prompt_marks: Sequence[int], reply: int) -> int:
    """The mark of a conversation that ends in our reply, whose own mark is `reply`."""
    return hash((prompt_marks[-1] if prompt_marks else 0, reply))


def message_mark(message: Message) -> int:
    """64 bits that name what one message says in this process; chance alone makes two the same, for Python keys its hashes anew."""
    role, content = message.get("role"), message.get("content")
    said = fingerprint("system" if role == "developer" else role)
    if isinstance(content, str) and "tool_calls" not in message:  # most are
        return hash((said, content.strip()))
    parts: list[int | str] = [said, text_of(content).strip()]
    if isinstance(content, list):
        parts.extend(fingerprint(part) for part in content if isinstance(part, dict) and not isinstance(part.get("text"), str))
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        parts.extend(_call_mark(call) for call in calls)
    return hash(tuple(parts))


def _call_mark(call: JSON) -> int:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        return fingerprint(call)
    name, arguments = function.get("name"), function.get("arguments")
    if not isinstance(arguments, str):
        return fingerprint([name, arguments])
    given = hash((arguments, fingerprint(name)))
    mark = _calls.get(given)
    if mark is None:
        written: JSON = arguments
        with contextlib.suppress(ValueError):  # arguments that are no JSON stay as they are
            written = json.dumps(json_text.parse(arguments), sort_keys=True)
        mark = fingerprint([name, written])
        _calls.put(given, mark)
    return mark


def _make_key(message: Message) -> bytes:
    role = message.get("role")
    content = message.get("content")
    parts: list[JSON] = [
        "system" if role == "developer" else role,
        redact_text(text_of(content))[0].strip(),  # in this order: the text as it came was looked through already
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

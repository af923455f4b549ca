"""How long a prompt is, roughly, where no tokeniser is at hand."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.records import JSON, JSONObject, Message

_CHARACTERS_PER_TOKEN = 3.5  # of English and code, with some to spare
_MESSAGE_TOKENS = 4  # what a template puts around each message
_PICTURE_TOKENS = 1600  # about a megapixel; files the same, for want of anything better
_NOT_READ = frozenset({"type", "id", "tool_call_id", "role"})


def estimated_tokens(messages: Iterable[Message], tools: Iterable[JSONObject]) -> int:
    """Rather too many than too few: clients compact in time by it. Other scripts than Latin count by their bytes."""
    texts = 0.0
    count = 0
    for message in messages:
        texts += _length(message) / _CHARACTERS_PER_TOKEN
        count += _MESSAGE_TOKENS
    return count + round(texts + sum(_length(tool) for tool in tools) / _CHARACTERS_PER_TOKEN)


def _length(value: JSON) -> float:
    """Of all that is read, in characters' worth."""
    if isinstance(value, str):
        return len(value.encode("utf-8", "replace"))
    if isinstance(value, list):
        return sum(_length(inner) for inner in value)
    if not isinstance(value, dict):
        return 0 if value is None else len(str(value))
    if value.get("type", "text") in ("image_url", "file", "input_audio", "document"):
        return _PICTURE_TOKENS * _CHARACTERS_PER_TOKEN
    names = sum(len(name) + 2 for name in value if name not in ("content", "text"))
    return names + sum(_length(inner) for name, inner in value.items() if name not in _NOT_READ)

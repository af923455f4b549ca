"""What can be said of a request before the engine is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from daemon.engine.base import Capability, ModelInfo
from daemon.errors import ContextOverflow, NotFound, Unsupported
from daemon.gateway.call import Call, base_name
from daemon.records import JSON, JSONObject, Message

REDACT_IN_THREAD_CHARACTERS = 64 << 10
WALK_IN_THREAD_CHARACTERS = 1 << 20  # a thread costs more than it takes to look at less
_INNER_CHARACTERS = 32  # what an array or object weighs beside its texts
_SEEN_OR_HEARD = frozenset({"image_url", "image", "input_image", "input_audio", "audio", "video", "video_url", "file", "input_file"})
_MOST_CHARACTERS_A_BYTE = 6  # of a body, once a wire has made texts of its objects
_LONGEST_TOKEN_CHARACTERS = 1024
"""No vocabulary in use has a longer token, so a prompt has at least its length over this many tokens."""


class ModelNotFound(NotFound):
    code = "model_not_found"


def check_model(asked: str, served: ModelInfo) -> None:
    """Raise `ModelNotFound` unless `asked` is the served model's name, alone or with a release: MODEL@r14."""
    if served.id in (asked, base_name(asked)):
        return
    hint = f"Served here: {served.id}. Set that as the model, or serve another: reef models use NAME."
    raise ModelNotFound(f"The model {asked!r} is not served here.", hint, param="model")


def check_supported(call: Call, capabilities: Capability) -> None:
    """Refuse what would otherwise be ignored in silence.

    Raises:
        Unsupported: names the field.
    """
    if call.suffix and Capability.FILL_IN_MIDDLE not in capabilities:
        hint = "Leave out the suffix, or serve a model that was trained to fill in the middle."
        raise Unsupported("This model cannot fill in the middle.", hint, param="suffix")
    if Capability.IMAGES not in capabilities:
        _check_texts_only(call.messages)
    if Capability.STRUCTURE in capabilities:
        return
    if call.response_format is not None:
        hint = "Ask for JSON in the prompt, or use an upstream engine that can."
        raise Unsupported("This engine cannot hold a reply to a JSON form.", hint, param="response_format")
    if isinstance(call.tool_choice, dict) or call.tool_choice == "required":
        raise Unsupported("This engine cannot be made to call a tool.", "Set tool_choice to auto.", param="tool_choice")


def _check_texts_only(messages: Iterable[Message]) -> None:
    for index, message in enumerate(messages):
        content = message.get("content")
        for place, part in enumerate(content if isinstance(content, list) else ()):
            kind = part.get("type", "text") if isinstance(part, dict) else None
            if kind in _SEEN_OR_HEARD:
                hint = "Send text, or name a server whose model can as the engine."
                raise Unsupported(f"This model reads text only, no {str(kind)[:40]}.", hint, param=f"messages[{index}].content[{place}]")


def check_fits(call: Call, model: ModelInfo) -> None:
    """Refuse at once a prompt that cannot fit however it is split: passing megabytes on would hold up others.

    Raises:
        ContextOverflow: with the window's size.
    """
    if call.size_bytes is not None and call.size_bytes * _MOST_CHARACTERS_A_BYTE // _LONGEST_TOKEN_CHARACTERS <= model.context_tokens:
        return
    if call.text is None:
        if len(call.messages) > model.context_tokens:  # each is a token at least
            raise _overflow(len(call.messages), model, "messages")
        check_length(characters(call.messages), model, "messages")
    else:
        check_length(len(call.text) + len(call.suffix or ""), model, "prompt")


def check_length(length: int, model: ModelInfo, param: str) -> None:
    """As `check_fits`, for a text of `length` characters."""
    least = length // _LONGEST_TOKEN_CHARACTERS
    if least > model.context_tokens:
        raise _overflow(least, model, param)


def _overflow(least: int, model: ModelInfo, param: str) -> ContextOverflow:
    return ContextOverflow(
        f"This model's maximum context length is {model.context_tokens} tokens, however you requested at least {least} tokens.",
        "Shorten what you send, or raise engine.context if the model has a larger window.",
        param=param,
    )


def takes_long(call: Call) -> bool:
    """Whether walking through the call would hold up the event loop."""
    if call.size_bytes is not None:
        return call.size_bytes > WALK_IN_THREAD_CHARACTERS
    return is_long(call.messages, call.request, WALK_IN_THREAD_CHARACTERS)


def is_long(messages: Sequence[Message], request: JSONObject | None = None, limit: int = REDACT_IN_THREAD_CHARACTERS) -> bool:
    """Whether walking through the messages and the other fields would hold up the event loop; by default, to redact them."""
    left = _left(messages, limit)
    return left < 0 or (request is not None and _left(request, left) < 0)


def _left(value: JSONObject | Sequence[JSON], budget: int) -> int:
    """What is left of `budget` characters after `value`; less than 0 once it is used up, and the walk ends there."""
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, str):
            budget -= len(inner)
        elif isinstance(inner, dict | list):
            budget = _left(inner, budget - _INNER_CHARACTERS)
        else:
            budget -= 1
        if budget < 0:
            break
    return budget


def characters(messages: Iterable[Message]) -> int:
    """Of all texts in the messages, whatever field they are in."""
    return sum([_characters(message) for message in messages])


def _characters(value: dict[str, JSON] | list[JSON]) -> int:
    total = 0
    for inner in value.values() if isinstance(value, dict) else value:
        if isinstance(inner, str):
            total += len(inner)
        elif isinstance(inner, dict | list):
            total += _characters(inner)
    return total

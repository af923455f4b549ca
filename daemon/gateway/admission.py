"""What can be said of a request before the engine is asked."""

from __future__ import annotations

from collections.abc import Iterable

from daemon.engine.base import Capability, ModelInfo
from daemon.errors import ContextOverflow, NotFound, Unsupported
from daemon.gateway.call import Call, base_name
from daemon.records import JSON, Message

_IN_THREAD_CHARACTERS = 64 << 10
_SEEN_OR_HEARD = frozenset({"image_url", "image", "input_image", "input_audio", "audio", "video", "video_url", "file", "input_file"})
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
    if call.text is None:
        check_length(characters(call.messages), model, "messages")
    else:
        check_length(len(call.text) + len(call.suffix or ""), model, "prompt")


def check_length(length: int, model: ModelInfo, param: str) -> None:
    """As `check_fits`, for a text of `length` characters."""
    least = length // _LONGEST_TOKEN_CHARACTERS
    if least > model.context_tokens:
        raise ContextOverflow(
            f"This model's maximum context length is {model.context_tokens} tokens, however you requested at least {least} tokens.",
            "Shorten what you send, or raise engine.context if the model has a larger window.",
            param=param,
        )


def is_long(messages: Iterable[Message]) -> bool:
    """Whether hashing and redacting the messages would hold up the event loop."""
    total = 0
    for message in messages:
        total += _characters(message)
        if total > _IN_THREAD_CHARACTERS:
            return True
    return False


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

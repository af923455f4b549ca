"""The OpenAI chat wire: a request body to a `Call`, events to chunks and completions.

Unknown fields are ignored, known ones with a bad value are a 400 that names them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable

from daemon.errors import BadRequest
from daemon.gateway.call import Call, SamplingRequest
from daemon.gateway.fields import an_object, array, bad, boolean, integer, number, required_text, texts
from daemon.records import JSON, JSONObject, Message, Usage

WIRE = "chat"
MAX_CHOICES = 8
_MAX_TOKENS_LIMIT = 1 << 31
_SEED_LIMIT = (1 << 63) - 1
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_PASSED_ON = ("response_format", "tool_choice", "parallel_tool_calls", "logprobs", "top_logprobs", "logit_bias")
"""What an engine may understand; the others are recorded and otherwise ignored."""


def parse(body: JSONObject) -> Call:
    """Validate a chat completion request.

    Raises:
        BadRequest: names the field that is wrong.
    """
    options = an_object(body, "stream_options") or {}
    a_format = an_object(body, "response_format")
    if a_format is not None and a_format.get("type") not in ("text", "json_object", "json_schema"):
        raise bad("response_format", "of type text, json_object or json_schema", a_format.get("type"))
    integer(body, "top_logprobs", 0, 20)
    boolean(body, "logprobs")
    return Call(
        wire=WIRE,
        model=required_text(body, "model", limit=512),
        messages=_messages(body),
        sampling=_sampling(body),
        max_tokens=_max_tokens(body),
        tools=() if body.get("tool_choice") == "none" else parse_tools(body),
        stream=boolean(body, "stream"),
        include_usage=boolean(options, "include_usage"),
        choices=integer(body, "n", 1, MAX_CHOICES) or 1,
        request={name: value for name, value in body.items() if name != "messages"},
        extra={name: body[name] for name in _PASSED_ON if body.get(name) is not None},
    )


def _sampling(body: JSONObject) -> SamplingRequest:
    top_k = integer(body, "top_k", -1, 1 << 20)
    repeat = number(body, "repeat_penalty", 0.01, 10)
    return SamplingRequest(
        temperature=number(body, "temperature", 0, 2),
        top_p=number(body, "top_p", 0, 1),
        top_k=None if top_k is None else max(0, top_k),
        min_p=number(body, "min_p", 0, 1),
        seed=integer(body, "seed", -_SEED_LIMIT, _SEED_LIMIT),
        stop=texts(body, "stop", most=16),
        presence_penalty=number(body, "presence_penalty", -2, 2) or 0.0,
        frequency_penalty=number(body, "frequency_penalty", -2, 2) or 0.0,
        repeat_penalty=repeat if repeat is not None else number(body, "repetition_penalty", 0.01, 10) or 1.0,
    )


def _max_tokens(body: JSONObject) -> int | None:
    newer = integer(body, "max_completion_tokens", 1, _MAX_TOKENS_LIMIT)
    older = integer(body, "max_tokens", 1, _MAX_TOKENS_LIMIT)
    return newer if newer is not None else older


def _messages(body: JSONObject) -> tuple[Message, ...]:
    messages = array(body, "messages")
    if not messages:
        raise BadRequest("'messages' must hold at least one message.", param="messages")
    return tuple(check_message(message, f"messages[{index}]") for index, message in enumerate(messages))


def check_message(message: JSON, name: str) -> Message:
    """One message in chat form; raises `BadRequest` naming the place."""
    if not isinstance(message, dict):
        raise bad(name, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise bad(f"{name}.role", "one of system, developer, user, assistant, tool", role)
    content = message.get("content")
    if isinstance(content, list):
        for place, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type", "text"), str):
                raise bad(f"{name}.content[{place}]", "an object with a type", part)
            if part.get("type", "text") == "text" and not isinstance(part.get("text"), str):
                raise bad(f"{name}.content[{place}].text", "a text", part.get("text"))
    elif content is not None and not isinstance(content, str):
        raise bad(f"{name}.content", "a text, an array of parts or null", content)
    calls = message.get("tool_calls")
    if calls is not None and (not isinstance(calls, list) or any(not isinstance(call, dict) for call in calls)):
        raise bad(f"{name}.tool_calls", "an array of objects", calls)
    return message


def parse_tools(body: JSONObject) -> tuple[JSONObject, ...]:
    """The function tools; other types (`web_search`, `custom`, …) are skipped."""
    tools: list[JSONObject] = []
    for index, tool in enumerate(array(body, "tools")):
        if not isinstance(tool, dict):
            raise bad(f"tools[{index}]", "an object", tool)
        if tool.get("type", "function") != "function":
            continue
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise bad(f"tools[{index}].function.name", "a text", function)
        tools.append(tool)
    return tuple(tools)


def engine_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """What a chat template can read: `developer` is `system`, text parts are joined, null is empty text, order is kept.

    Parts that are no text stay as they are; an engine that cannot read them says so.
    """
    return tuple(_for_engine(message) for message in messages)


def _for_engine(message: Message) -> Message:
    changed = dict(message)
    if message["role"] == "developer":
        changed["role"] = "system"
    content = message.get("content")
    if content is None:
        changed["content"] = ""
    elif isinstance(content, list):
        texts_only = [part["text"] for part in content if isinstance(part, dict) and part.get("type", "text") == "text"]
        if len(texts_only) == len(content):
            changed["content"] = "\n".join(str(text) for text in texts_only)
    return changed


def usage_object(usage: Usage) -> JSONObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }


class ChatReply:
    """Builds what goes out for one request; one id and one creation time for all of it."""

    def __init__(self, reply_id: str, model: str, release_id: str) -> None:
        self._head: JSONObject = {"id": reply_id, "created": int(time.time()), "model": model, "system_fingerprint": release_id}

    def chunk(self, index: int, delta: JSONObject, finish_reason: str | None = None) -> JSONObject:
        choice: JSONObject = {"index": index, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}

    def usage_chunk(self, usage: Usage) -> JSONObject:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage_object(usage)}

    def receipt_chunk(self, reef: JSONObject) -> JSONObject:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "reef": reef}

    def completion(self, choices: list[tuple[Message, str]], usage: Usage, reef: JSONObject) -> JSONObject:
        listed: list[JSON] = [
            {"index": index, "message": {**message, "refusal": None}, "logprobs": None, "finish_reason": reason}
            for index, (message, reason) in enumerate(choices)
        ]
        return {**self._head, "object": "chat.completion", "choices": listed, "usage": usage_object(usage), "reef": reef}

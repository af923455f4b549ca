"""The OpenAI chat wire: a request body to a `Call`, events to chunks and completions.

Unknown fields are ignored, known ones with a bad value are a 400 that names them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import cast

from daemon.errors import BadRequest
from daemon.gateway.call import Call
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.chunks import ChunkForm, usage_object
from daemon.gateway.wires.fields import an_object, array, bad, boolean, required_text
from daemon.gateway.wires.sampling_fields import parse_chat_logprobs, parse_choices, parse_max_tokens, parse_sampling
from daemon.gateway.wires.tool_fields import parse_response_format, parse_template_values, parse_tool_choice, parse_tools
from daemon.records import JSON, JSONObject, Message, Usage

WIRE = "chat"
_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_PLAIN = frozenset(("model", "messages", "stream"))
_PASSED_ON = ("reasoning_effort",)
"""What only an upstream may understand; other unknown fields are recorded and otherwise ignored."""


def parse(body: JSONObject) -> Call:
    """Validate a chat completion request.

    Raises:
        BadRequest: names the field that is wrong.
    """
    if body.keys() <= _PLAIN:  # a conversation and nothing else
        return Call(
            wire=WIRE,
            model=required_text(body, "model", limit=512),
            messages=_messages(body),
            stream=boolean(body, "stream"),
            request={name: value for name, value in body.items() if name != "messages"},
        )
    options = an_object(body, "stream_options") or {}
    tools = parse_tools(body)
    return Call(
        wire=WIRE,
        model=required_text(body, "model", limit=512),
        messages=_messages(body),
        sampling=parse_sampling(body),
        max_tokens=parse_max_tokens(body),
        tools=tools,  # also where none may be called: left out of the prompt, the whole conversation would be read again
        tool_choice=parse_tool_choice(body, tools),
        parallel_tool_calls=boolean(body, "parallel_tool_calls", otherwise=True),
        response_format=parse_response_format(body),
        top_logprobs=parse_chat_logprobs(body),
        template_values=parse_template_values(body),
        stream=boolean(body, "stream"),
        include_usage=boolean(options, "include_usage"),
        choices=parse_choices(body),
        request={name: value for name, value in body.items() if name != "messages"},
        extra={name: body[name] for name in _PASSED_ON if body.get(name) is not None},
    )


def _messages(body: JSONObject) -> tuple[Message, ...]:
    messages = array(body, "messages")
    if not messages:
        raise BadRequest("'messages' must hold at least one message.", param="messages")
    for index, message in enumerate(messages):
        if type(message) is dict and len(message) == 2 and type(message.get("content")) is str:
            role = message.get("role")
            if type(role) is str and role in _ROLES:
                continue  # a text and nothing else, as most are
        check_message(message, f"messages[{index}]")
    return tuple(cast(list[Message], messages))


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


class ChatReply(ChunkForm):
    """One id and one creation time for all that goes out for one request."""

    def __init__(self, record_id: str, model: str, release_id: str, *, include_usage: bool) -> None:
        super().__init__(include_usage=include_usage)
        self._head: JSONObject = {
            "id": f"chatcmpl-{record_id.rpartition('_')[2]}",  # agents keep it, and it names the record
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": release_id,
        }

    def opening_chunk(self, index: int) -> JSONObject | None:
        return self._chunk(index, {"role": "assistant", "content": ""})

    def piece_chunk(self, index: int, piece: Piece) -> JSONObject | None:
        if not piece.delta and not piece.logprobs:
            return None
        return self._chunk(index, piece.delta or {"content": ""}, _logprobs(piece.logprobs))

    def closing_chunk(self, index: int, done: Done) -> JSONObject:
        return self._chunk(index, {}, None, done.inference.finish_reason)

    def usage_chunk(self, usage: JSONObject) -> JSONObject:
        return {**self._head, "object": "chat.completion.chunk", "choices": [], "usage": usage}

    def whole(self, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> JSONObject:
        listed: list[JSON] = [
            {
                "index": index,
                "message": {**done.inference.reply, "refusal": None},
                "logprobs": _logprobs(done.logprobs),
                "finish_reason": done.inference.finish_reason,
            }
            for index, done in enumerate(choices)
        ]
        return {**self._head, "object": "chat.completion", "choices": listed, "usage": usage_object(usage), "reef": reef}

    def _chunk(self, index: int, delta: JSONObject, logprobs: JSON = None, finish_reason: str | None = None) -> JSONObject:
        choice: JSONObject = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
        return {**self._head, "object": "chat.completion.chunk", "choices": [choice]}


def _logprobs(tokens: Sequence[JSONObject]) -> JSON:
    return {"content": list(tokens), "refusal": None} if tokens else None

"""What a request looks like on Anthropic's messages wire, made of one in OpenAI's chat form."""

from __future__ import annotations

import re
from collections.abc import Iterable

from daemon import json_text
from daemon.engine.base import GenerateRequest
from daemon.errors import Unsupported
from daemon.records import JSON, JSONObject, Message

DEFAULT_MAX_TOKENS = 8192
"""Where the client sets no limit: the wire insists on one, and refuses more than the model can say."""
_COUNTED = ("model", "system", "messages", "tools", "tool_choice", "output_config")
_DATA_URL = re.compile(r"data:([^;,]+);base64,", re.I)
_NOT_IN_AN_ID = re.compile(r"[^a-zA-Z0-9_-]")
_HINT = "Leave it out, or use an upstream that speaks the chat wire."


def body_of(request: GenerateRequest, model: str) -> JSONObject:
    """The body of a streamed request for one reply. Penalties, `seed`, `min_p` and token biases are not known on this wire and left out;
    reasoning of earlier turns too, for the server takes it back only with its own signature.

    Raises:
        Unsupported: what would change the reply's form and cannot be said.
    """
    if request.text is not None:
        raise Unsupported("The upstream does not complete plain texts.", "Use a model server that does.", param="prompt")
    if request.top_logprobs is not None:
        raise Unsupported("The upstream gives no log-probabilities.", _HINT, param="logprobs")
    system, messages = _conversation(request.messages)
    body: JSONObject = {**request.extra, "model": model, "stream": True, "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS}
    if system:
        body["system"] = system
    body["messages"] = messages
    body |= _sampling(request) | _tools(request)
    if (form := request.response_format) is not None and form.get("type") != "text":
        described = form.get("json_schema")
        if not isinstance(described, dict):
            raise Unsupported("The upstream holds a reply to a schema, not to JSON of any form.", _HINT, param="response_format")
        body["output_config"] = {"format": {"type": "json_schema", "schema": described.get("schema") or {}}}
    return body


def counting_body_of(request: GenerateRequest, model: str) -> JSONObject:
    """The body of a request to count the prompt's tokens, which takes nothing else."""
    body = body_of(request, model)
    return {name: body[name] for name in _COUNTED if name in body}


def _sampling(request: GenerateRequest) -> JSONObject:
    """What differs from the wire's defaults: some models refuse to be told both temperature and top_p."""
    sampling, fields = request.sampling, JSONObject()
    if sampling.temperature != 1:
        fields["temperature"] = min(1.0, sampling.temperature)
    if sampling.top_p != 1:
        fields["top_p"] = sampling.top_p
    if sampling.top_k:
        fields["top_k"] = sampling.top_k
    if stops := [stop for stop in sampling.stop if stop.strip()]:  # others are refused
        fields["stop_sequences"] = list(stops)
    return fields


def _tools(request: GenerateRequest) -> JSONObject:
    tools: list[JSON] = [_tool(tool) for tool in request.tools]
    if not tools:  # a history of calls needs tools, though none may be called any more
        names = dict.fromkeys(name for message in request.messages for _, name, _ in _calls(message))
        return {"tools": [_tool({"function": {"name": name}}) for name in names], "tool_choice": {"type": "none"}} if names else {}
    choice = request.tool_choice
    shown: JSONObject = {"type": "auto"}
    if isinstance(choice, dict):
        function = choice.get("function")
        shown = {"type": "tool", "name": function.get("name") if isinstance(function, dict) else None}
    elif choice in ("required", "none"):
        shown = {"type": "any" if choice == "required" else "none"}
    if not request.parallel_tool_calls and shown["type"] != "none":
        shown["disable_parallel_tool_use"] = True
    return {"tools": tools} if shown == {"type": "auto"} else {"tools": tools, "tool_choice": shown}


def _tool(tool: JSONObject) -> JSONObject:
    function = tool.get("function")
    known = function if isinstance(function, dict) else {}
    any_object: JSONObject = {"type": "object", "properties": {}}
    made: JSONObject = {"name": known.get("name"), "input_schema": known.get("parameters") or any_object}
    return {**made, "description": known["description"]} if isinstance(known.get("description"), str) else made


def _conversation(messages: Iterable[Message]) -> tuple[list[JSON], list[JSON]]:
    """The system text before the first turn, and the turns: neighbours of one role are one turn, results of tools are the user's.

    A system text in the middle is shown as the user's, in tags, in its place.
    """
    system: list[JSON] = []
    turns: list[tuple[str, list[JSON]]] = []
    for message in messages:
        role = message.get("role")
        if role in ("system", "developer") and not turns:
            system += _content(message.get("content"))
            continue
        author, blocks = ("assistant", _said(message)) if role == "assistant" else ("user", _user(message))
        if turns and turns[-1][0] == author:
            turns[-1][1].extend(blocks)
        elif blocks:
            turns.append((author, blocks))
    return system, [{"role": author, "content": blocks} for author, blocks in turns]


def _user(message: Message) -> list[JSON]:
    role, blocks = message.get("role"), _content(message.get("content"))
    if role in ("system", "developer"):
        return [{"type": "text", "text": "<system>"}, *blocks, {"type": "text", "text": "</system>"}] if blocks else []
    if role != "tool":
        return blocks
    result: JSONObject = {"type": "tool_result", "tool_use_id": _id(message.get("tool_call_id")), "content": blocks}
    return [{**result, "is_error": True} if message.get("is_error") is True else result]


def _said(message: Message) -> list[JSON]:
    blocks = _content(message.get("content"))
    for call, name, arguments in _calls(message):
        try:
            given = json_text.parse(arguments or "{}")
        except ValueError:
            given = None
        shown: JSONObject = given if isinstance(given, dict) else {"arguments": arguments}
        blocks.append({"type": "tool_use", "id": _id(call), "name": name, "input": shown})
    return blocks


def _calls(message: Message) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call."""
    calls = message.get("tool_calls")
    found: list[tuple[str, str, str]] = []
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            arguments = function.get("arguments")
            found.append((str(call.get("id")), str(function.get("name")), arguments if isinstance(arguments, str) else ""))
    return found


def _id(value: JSON) -> str:
    """Other servers' ids may hold what this wire refuses, such as `functions.read:0`."""
    return _NOT_IN_AN_ID.sub("_", str(value))


def _content(content: JSON) -> list[JSON]:
    """The blocks of a message; empty texts are refused and left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    parts = content if isinstance(content, list) else []
    return [block for part in parts if isinstance(part, dict) and (block := _block(part)) is not None]


def _block(part: JSONObject) -> JSONObject | None:
    kind = part.get("type", "text")
    if kind == "text":
        text = part.get("text")
        return {"type": "text", "text": text} if isinstance(text, str) and text.strip() else None
    if kind == "image_url":
        image = part.get("image_url")
        url = image.get("url") if isinstance(image, dict) else image
        return {"type": "image", "source": _source(url if isinstance(url, str) else "")}
    if kind == "file":
        file = part.get("file")
        data = file.get("file_data") if isinstance(file, dict) else None
        if isinstance(data, str):
            return {"type": "document", "source": _source(data)}
    if kind in ("image", "document", "container_upload"):  # this wire's own, as it came
        return part
    raise Unsupported(f"The upstream takes no {str(kind)[:40]!r} parts.", "Leave them out.", param="messages")


def _source(url: str) -> JSONObject:
    if found := _DATA_URL.match(url):
        return {"type": "base64", "media_type": found.group(1), "data": url[found.end() :]}
    return {"type": "url", "url": url}

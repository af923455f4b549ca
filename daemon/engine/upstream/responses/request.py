"""What a request looks like on another server's responses wire: messages in chat form become items again."""

from __future__ import annotations

from daemon.engine.base import GenerateRequest
from daemon.engine.upstream.chat.request import sampling_fields
from daemon.records import JSON, JSONObject, Message


def body_of(request: GenerateRequest, model: str) -> JSONObject:
    """The body of a streamed request that the server need not store. What is at its default is left out.

    The wire has no `stop`, `seed`, penalties or `logit_bias`; they are sent as the chat wire calls them, for servers that know them.
    """
    extra = dict(request.extra)
    effort, verbosity = extra.pop("reasoning_effort", None), extra.pop("verbosity", None)
    body: JSONObject = {**extra, "model": model, "stream": True, "store": False, "input": _items(request)}
    body |= sampling_fields(request.sampling)
    if request.max_tokens is not None:
        body["max_output_tokens"] = request.max_tokens
    if effort is not None:
        body["reasoning"] = {"effort": effort}
    form = _format(request)
    if form is not None or verbosity is not None:
        text: JSONObject = {} if form is None else {"format": form}
        body["text"] = text if verbosity is None else {**text, "verbosity": verbosity}
    if request.tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if request.tool_choice != "auto":
            body["tool_choice"] = _choice(request.tool_choice)
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if request.top_logprobs is not None:
        body["include"] = ["message.output_text.logprobs"]
        body["top_logprobs"] = request.top_logprobs
    if request.template_values:
        body["chat_template_kwargs"] = request.template_values
    return body


def _items(request: GenerateRequest) -> list[JSON]:
    return [item for message in request.messages for item in _items_of(message)]


def _items_of(message: Message) -> list[JSON]:
    role, content = message.get("role"), message.get("content")
    if role in ("tool", "function"):
        output = content if isinstance(content, str) else _parts(content, "input_text")
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output}]
    if role != "assistant":
        parts = content if isinstance(content, str) else _parts(content, "input_text")
        return [{"type": "message", "role": role, "content": parts}]
    items: list[JSON] = []
    if reasoning := message.get("reasoning_content"):  # only servers that reason in the open have given us any
        items.append({"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": reasoning}]})
    calls = message.get("tool_calls")
    if content or not calls:
        parts = content or "" if isinstance(content, str) or content is None else _parts(content, "output_text")
        items.append({"type": "message", "role": "assistant", "content": parts})
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(function, dict):
            named: JSONObject = {"name": function.get("name"), "arguments": function.get("arguments")}
            items.append({"type": "function_call", "call_id": call.get("id"), **named})
    return items


def _parts(content: JSON, text_type: str) -> list[JSON]:
    return [_part(part, text_type) for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _part(part: JSONObject, text_type: str) -> JSONObject:
    kind = part.get("type", "text")
    if kind == "text":
        return {"type": text_type, "text": part.get("text")}
    image, file = part.get("image_url"), part.get("file")
    if kind == "image_url":
        pointed: JSONObject = image if isinstance(image, dict) else {"url": image}
        return {"type": "input_image", "image_url": pointed.get("url"), "detail": pointed.get("detail", "auto")}
    if kind == "file" and isinstance(file, dict):
        return {"type": "input_file", **file}
    return part


def _tool(tool: JSONObject) -> JSONObject:
    """`strict` is true on this wire where nothing is said, which most schemas do not bear."""
    function = tool.get("function")
    described = function if isinstance(function, dict) else {}
    said = {name: value for name, value in described.items() if value is not None}
    return {"type": "function", "parameters": {"type": "object", "properties": {}}, "strict": False, **said}


def _choice(choice: JSON) -> JSON:
    function = choice.get("function") if isinstance(choice, dict) else None
    return {"type": "function", "name": function.get("name")} if isinstance(function, dict) else choice


def _format(request: GenerateRequest) -> JSONObject | None:
    form = request.response_format
    if form is None:
        return None
    schema = form.get("json_schema")
    return {"type": "json_schema", "name": "reply", **schema} if isinstance(schema, dict) else form

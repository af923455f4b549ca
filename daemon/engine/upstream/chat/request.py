"""What a request looks like on an OpenAI-compatible server's wire."""

from __future__ import annotations

from daemon.engine.base import GenerateRequest
from daemon.records import JSONObject, Message, Sampling


def body_of(request: GenerateRequest, model: str) -> JSONObject:
    """The body of a streamed request for one reply. What is at its default is left out: not every server knows every field."""
    body: JSONObject = {
        **request.extra,
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "n": 1,
        **sampling_fields(request.sampling),
    }
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    body.update(_chat_fields(request) if request.text is None else _text_fields(request))
    return body


def _chat_fields(request: GenerateRequest) -> JSONObject:
    fields: JSONObject = {"messages": [_without_mark(message) for message in request.messages]}
    if request.tools:  # without tools, a choice among them is refused
        fields["tools"] = list(request.tools)
        if request.tool_choice != "auto":
            fields["tool_choice"] = request.tool_choice
        if not request.parallel_tool_calls:
            fields["parallel_tool_calls"] = False
    if request.response_format is not None:
        fields["response_format"] = request.response_format
    if request.top_logprobs is not None:
        fields["logprobs"] = True
        fields["top_logprobs"] = request.top_logprobs
    if request.template_values:
        fields["chat_template_kwargs"] = request.template_values
    return fields


def _without_mark(message: Message) -> Message:
    """The messages wire says of a tool's result that it failed; servers of this one may refuse what they do not know."""
    return {name: value for name, value in message.items() if name != "is_error"} if "is_error" in message else message


def _text_fields(request: GenerateRequest) -> JSONObject:
    fields: JSONObject = {"prompt": request.text}
    if request.suffix is not None:
        fields["suffix"] = request.suffix
    if request.top_logprobs is not None:
        fields["logprobs"] = request.top_logprobs
    return fields


def sampling_fields(sampling: Sampling) -> JSONObject:
    """What differs from the wire's defaults; fields beyond OpenAI's only when they are set."""
    fields: JSONObject = {"temperature": sampling.temperature}
    default = Sampling()
    if sampling.stop:
        fields["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        fields["seed"] = sampling.seed
    if sampling.logit_bias:
        fields["logit_bias"] = {str(token): bias for token, bias in sampling.logit_bias}
    numbers: dict[str, tuple[float, float]] = {
        "top_p": (sampling.top_p, default.top_p),
        "top_k": (sampling.top_k, default.top_k),
        "min_p": (sampling.min_p, default.min_p),
        "presence_penalty": (sampling.presence_penalty, default.presence_penalty),
        "frequency_penalty": (sampling.frequency_penalty, default.frequency_penalty),
        "repeat_penalty": (sampling.repeat_penalty, default.repeat_penalty),
    }
    fields.update({name: value for name, (value, usual) in numbers.items() if value != usual})
    return fields

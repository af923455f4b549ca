"""What clients call: the wires, models, and what agents probe at their start."""

from __future__ import annotations

from dataclasses import replace

from daemon.openapi.operation import Errors, Operation
from daemon.openapi.schema import (
    BOOLEAN,
    INTEGER,
    NUMBER,
    OBJECT,
    TEXT,
    array,
    either,
    integer,
    nullable,
    number,
    obj,
    optionals,
    ref,
    text,
)
from daemon.records import JSONObject

_AREA = "Inference"
_UNAVAILABLE = (404, 409, 422, 429, 503)
_HEADERS: dict[str, JSONObject] = {"x-reef-scenario": {**text(100), "description": "The default one otherwise."}}
_RECEIPT = {
    "x-reef-release-id": "The release that answered.",
    "x-reef-artifact-version": "Its content.",
    "x-reef-agent-record-id": "The receipt; a stream carries it in its last event.",
}
_SAMPLING = optionals(
    {
        "temperature": number(0, 2),
        "top_p": number(0, 1),
        "top_k": integer(-1, 1 << 20),
        "min_p": number(0, 1),
        "seed": INTEGER,
        "stop": either(TEXT, array(TEXT, most=16)),
        "presence_penalty": number(-2, 2),
        "frequency_penalty": number(-2, 2),
        "logit_bias": {"type": "object", "additionalProperties": number(-100, 100)},
        "max_tokens": integer(1),
        "n": integer(1, 8),
        "stream": BOOLEAN,
        "stream_options": obj({}, {"include_usage": nullable(BOOLEAN)}),
    }
)
_MODEL = {"model": text(512, least=1)}

_CHAT = obj(
    {**_MODEL, "messages": array(ref("Message"), least=1)},
    {
        **_SAMPLING,
        **optionals(
            {
                "max_completion_tokens": integer(1),
                "tools": array(OBJECT),
                "tool_choice": either(TEXT, OBJECT),
                "parallel_tool_calls": BOOLEAN,
                "response_format": OBJECT,
                "logprobs": BOOLEAN,
                "top_logprobs": integer(0, 20),
            }
        ),
    },
)
_CHAT_REPLY = obj(
    {"id": TEXT, "object": TEXT, "created": INTEGER, "model": TEXT, "choices": array(OBJECT)},
    {"usage": ref("Usage"), "system_fingerprint": nullable(TEXT), "reef": ref("Reef")},
)
_RESPONSES = obj(
    {**_MODEL, "input": either(TEXT, array(OBJECT))},
    optionals(
        {
            "instructions": TEXT,
            "tools": array(OBJECT),
            "tool_choice": either(TEXT, OBJECT),
            "parallel_tool_calls": BOOLEAN,
            "text": OBJECT,
            "max_output_tokens": integer(1),
            "temperature": number(0, 2),
            "top_p": number(0, 1),
            "reasoning": OBJECT,
            "include": array(TEXT),
            "top_logprobs": integer(0, 20),
            "stream": BOOLEAN,
        }
    ),
)
_RESPONSES_REPLY = obj(
    {"id": TEXT, "object": TEXT, "status": TEXT, "model": TEXT, "output": array(OBJECT)}, {"usage": nullable(OBJECT), "reef": ref("Reef")}
)
_ANTHROPIC_PROMPT = optionals(
    {
        "system": either(TEXT, array(OBJECT)),
        "tools": array(OBJECT),
        "tool_choice": OBJECT,
        "thinking": OBJECT,
    }
)
_MESSAGES = obj(
    {**_MODEL, "messages": array(OBJECT, least=1), "max_tokens": integer(1)},
    {
        **_ANTHROPIC_PROMPT,
        **optionals(
            {
                "temperature": number(0, 1),
                "top_p": number(0, 1),
                "top_k": integer(0),
                "stop_sequences": array(TEXT),
                "metadata": OBJECT,
                "output_config": OBJECT,
                "stream": BOOLEAN,
            }
        ),
    },
)
_MESSAGES_REPLY = obj(
    {"id": TEXT, "type": TEXT, "role": TEXT, "model": TEXT, "content": array(OBJECT), "stop_reason": nullable(TEXT), "usage": OBJECT},
    {"reef": ref("Reef")},
)
_COMPLETIONS = obj(
    {**_MODEL, "prompt": either(TEXT, array(TEXT, least=1))},
    {**_SAMPLING, **optionals({"suffix": TEXT, "echo": BOOLEAN, "logprobs": integer(0, 20)})},
)
_EMBEDDINGS = obj(
    {**_MODEL, "input": either(text(least=1), array(text(least=1), least=1, most=2048))},
    {"encoding_format": {"enum": ["float", "base64", None]}, "dimensions": nullable(integer(1))},
)
_EMBEDDED = obj({"object": TEXT, "model": TEXT, "data": array(OBJECT), "usage": OBJECT})


def _wire(
    path: str, summary: str, body: JSONObject, answer: JSONObject, *, shape: Errors = Errors.OPENAI, streams: bool = True
) -> Operation:
    errors = (*_UNAVAILABLE, 529) if shape is Errors.ANTHROPIC else _UNAVAILABLE
    told = _RECEIPT if streams else {}
    return Operation(
        "POST",
        path,
        summary,
        _AREA,
        {200: answer},
        body,
        headers=_HEADERS,
        errors=errors,
        shape=shape,
        streams=streams,
        answer_headers=told,
    )


_WIRES = (
    _wire("/v1/chat/completions", "The chat completions wire.", _CHAT, _CHAT_REPLY),
    _wire("/v1/responses", "The responses wire, stateless.", _RESPONSES, _RESPONSES_REPLY),
    _wire("/v1/messages", "The messages wire.", _MESSAGES, _MESSAGES_REPLY, shape=Errors.ANTHROPIC),
    _wire(
        "/v1/messages/count_tokens",
        "How many tokens a request of the messages wire would take.",
        obj({**_MODEL, "messages": array(OBJECT, least=1)}, _ANTHROPIC_PROMPT),
        obj({"input_tokens": INTEGER}),
        shape=Errors.ANTHROPIC,
        streams=False,
    ),
    _wire("/v1/completions", "A text to go on with, or a gap to fill.", _COMPLETIONS, _CHAT_REPLY),
    _wire("/v1/embeddings", "Vectors of texts, where the engine can.", _EMBEDDINGS, _EMBEDDED, streams=False),
    Operation(
        "GET",
        "/v1/models",
        "The served model with its window, and the releases that can be asked for as MODEL@release.",
        _AREA,
        {200: obj({"data": array(ref("Model"))}, {"object": TEXT})},
        headers=_HEADERS,
        shape=Errors.OPENAI,
    ),
    Operation("GET", "/v1/models/{model}", "One of them.", _AREA, {200: ref("Model")}, headers=_HEADERS, shape=Errors.OPENAI),
)


def _under_scenario(operation: Operation) -> Operation:
    """For clients that can set no header."""
    return replace(operation, path=f"/reef/scenarios/{{scenario}}{operation.path}", headers={})


_HEALTH = obj({"status": TEXT}, {"version": TEXT})
_PROBES = (
    Operation("GET", "/healthz", "Whether the daemon is up; needs no token.", "Probes", {200: _HEALTH}),
    Operation("GET", "/health", "Whether the engine can answer.", "Probes", {200: _HEALTH, 503: _HEALTH}),
    Operation("GET", "/api/hello", "What an agent asks first.", "Probes", {200: _HEALTH}),
    Operation("GET", "/api/version", "As another local server answers it.", "Probes", {200: obj({"version": TEXT})}),
    Operation("GET", "/api/tags", "As another local server answers it.", "Probes", {200: obj({"models": array(OBJECT)})}),
    Operation(
        "POST",
        "/api/show",
        "As another local server answers it.",
        "Probes",
        {200: obj({"details": OBJECT, "model_info": OBJECT, "capabilities": array(TEXT)})},
        OBJECT,
        errors=(429,),
    ),
)

_EVALUATION = "/reef/scenarios/{scenario}/evaluation/{candidate}/v1"


def _evaluated(
    route: str, summary: str, body: JSONObject, answer: JSONObject, *, streams: bool = False, shape: Errors = Errors.OPENAI
) -> Operation:
    return Operation(
        "POST",
        f"{_EVALUATION}/{route}",
        summary,
        "Evaluation",
        {200: answer},
        body,
        errors=(*_UNAVAILABLE, 529) if shape is Errors.ANTHROPIC else _UNAVAILABLE,
        shape=shape,
        streams=streams,
    )


_EVALUATED = (
    _evaluated(
        "chat/completions",
        "A reply of a candidate, for a run's token; nothing is recorded.",
        {**_CHAT, "required": ["messages"]},
        _CHAT_REPLY,
        streams=True,
    ),
    _evaluated(
        "responses",
        "The same on the responses wire.",
        {**_RESPONSES, "required": ["input"]},
        _RESPONSES_REPLY,
        streams=True,
    ),
    _evaluated(
        "messages",
        "The same on the messages wire.",
        {**_MESSAGES, "required": ["messages", "max_tokens"]},
        _MESSAGES_REPLY,
        streams=True,
        shape=Errors.ANTHROPIC,
    ),
    _evaluated(
        "score",
        "The log-probability of each token but the first.",
        obj({}, optionals({"tokens": array(integer(0)), "text": TEXT, "special": BOOLEAN})),
        obj({"logprobs": array(NUMBER)}),
    ),
    _evaluated(
        "render",
        "Token ids of a conversation under the model's template.",
        obj({"messages": array(ref("Message"))}, optionals({"tools": array(OBJECT), "add_generation_prompt": BOOLEAN})),
        obj({"tokens": array(INTEGER)}),
    ),
    _evaluated("tokenize", "Token ids of a text.", obj({"text": TEXT}, {"special": nullable(BOOLEAN)}), obj({"tokens": array(INTEGER)})),
)

INFERENCE: tuple[Operation, ...] = (*_WIRES, *(_under_scenario(operation) for operation in _WIRES), *_PROBES, *_EVALUATED)

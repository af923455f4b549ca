"""The Anthropic messages wire: a request body to a `Call`. The conversation is read in `messages_blocks`, replies are written by
`messages_reply`.

Unknown fields are ignored, known ones with a bad value are a 400 that names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.errors import BadRequest, Unsupported
from daemon.gateway.call import Call, SamplingRequest
from daemon.gateway.wires.fields import an_object, bad, boolean, integer, number, required_text, texts
from daemon.gateway.wires.messages.blocks import conversation
from daemon.gateway.wires.messages.tools import parse_choice, parse_tools
from daemon.records import JSONObject

WIRE = "messages"
_MAX_TOKENS_LIMIT = 1 << 31
_MAX_STOPS = 16
_THINKING = ("enabled", "disabled", "adaptive")
_IN_THE_CONVERSATION = ("messages", "system")


@dataclass(frozen=True, slots=True)
class Thinking:
    """What the client wants of the model's reasoning."""

    shown: bool = False  # it asked for thinking: reasoning is sent to it
    in_signature: bool = False  # but not its text: the signature carries it, and brings it back


def parse(body: JSONObject, *, counting: bool = False) -> Call:
    """Validate a messages request; `counting`: one whose tokens are only to be counted, which needs no `max_tokens`.

    Raises:
        BadRequest: names the field that is wrong.
    """
    tools = parse_tools(body)
    choice, parallel = parse_choice(body, tools)
    max_tokens = integer(body, "max_tokens", 1, _MAX_TOKENS_LIMIT)
    if max_tokens is None and not counting:
        raise BadRequest("'max_tokens' is missing.", "It is required on this wire.", param="max_tokens")
    return Call(
        wire=WIRE,
        model=required_text(body, "model", limit=512),
        messages=conversation(body),
        sampling=_sampling(body),
        max_tokens=max_tokens,
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=parallel,
        response_format=_response_format(body),
        template_values=_template_values(body),
        stream=boolean(body, "stream"),
        request={name: value for name, value in body.items() if name not in _IN_THE_CONVERSATION},
    )


def thinking_of(body: JSONObject) -> Thinking:
    """Without `thinking`, this wire shows none: programs take the first block for the answer."""
    asked = _thinking(body)
    if asked is None or asked["type"] == "disabled":
        return Thinking()
    return Thinking(shown=True, in_signature=asked.get("display") == "omitted")


def check_last(call: Call) -> None:
    """Refuse a reply that is begun already: another one would be put after it.

    Raises:
        Unsupported: the last message is the assistant's.
    """
    if call.messages[-1].get("role") == "assistant":
        hint = "End with a user message, and ask for the form of the reply there or in output_config.format."
        raise Unsupported("This model does not support assistant message prefill.", hint, param="messages")


def _sampling(body: JSONObject) -> SamplingRequest:
    top_k = integer(body, "top_k", -1, 1 << 20)
    return SamplingRequest(
        temperature=number(body, "temperature", 0, 1),
        top_p=number(body, "top_p", 0, 1),
        top_k=None if top_k is None else max(0, top_k),
        stop=texts(body, "stop_sequences", most=_MAX_STOPS),
    )


def _response_format(body: JSONObject) -> JSONObject | None:
    """`output_config.format`, or its older place `output_format`, as OpenAI's response format."""
    config = an_object(body, "output_config") or {}
    name, form = "output_config.format", an_object(config, "format")
    if form is None:
        name, form = "output_format", an_object(body, "output_format")
    if form is None:
        return None
    schema = form.get("schema")
    if form.get("type") != "json_schema":
        raise bad(f"{name}.type", "json_schema", form.get("type"))
    if not isinstance(schema, dict):
        raise bad(f"{name}.schema", "an object", schema)
    return {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema, "strict": True}}


def _template_values(body: JSONObject) -> JSONObject:
    """The variable by which chat templates switch reasoning. `adaptive` leaves it to the model."""
    asked = _thinking(body)
    if asked is not None and asked["type"] == "adaptive":
        return {}
    return {"enable_thinking": asked is not None and asked["type"] == "enabled"}


def _thinking(body: JSONObject) -> JSONObject | None:
    asked = an_object(body, "thinking")
    if asked is not None and asked.get("type") not in _THINKING:
        raise bad("thinking.type", "enabled, disabled or adaptive", asked.get("type"))
    return asked

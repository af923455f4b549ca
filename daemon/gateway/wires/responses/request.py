"""The OpenAI responses wire: a request body to a `Call`. How a reply is written is in `responses_reply`.

It is stateless here: whatever asks for what was stored before is a 400 that says so. Unknown fields are ignored, known ones with a bad
value are a 400 that names them.
"""

from __future__ import annotations

from dataclasses import dataclass

from daemon.errors import BadRequest
from daemon.gateway.call import Call
from daemon.gateway.wires.fields import an_object, array, bad, boolean, integer, required_text, text
from daemon.gateway.wires.responses.items import messages_of
from daemon.gateway.wires.sampling_fields import MAX_TOP_LOGPROBS, parse_sampling
from daemon.gateway.wires.tool_fields import parse_response_format, parse_template_values, parse_tool_choice, parse_tools
from daemon.records import JSON, JSONObject
from daemon.tool_forms import chat_tool

WIRE = "responses"
_MAX_TOKENS_LIMIT = 1 << 31
_MESSAGES = ("input", "instructions")
_STATELESS = "Reef keeps no responses to go on from: send the whole conversation in 'input', and leave this out."
_LOGPROBS = "message.output_text.logprobs"
_ENCRYPTED = "reasoning.encrypted_content"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a reply is to hold beside its text and calls."""

    summary: bool = False  # reasoning as a summary, which is what clients show; else as what it is
    encrypted: bool = False  # reasoning in a form without which some clients do not send it back
    logprobs: bool = False


def parse(body: JSONObject) -> Call:
    """Validate a request.

    Raises:
        BadRequest: names the field that is wrong.
    """
    _refuse_stored(body)
    tools = _tools(body)
    tools, choice = _choice(body, tools)
    return Call(
        wire=WIRE,
        model=required_text(body, "model", limit=512),
        messages=messages_of(body),
        sampling=parse_sampling(body),
        max_tokens=integer(body, "max_output_tokens", 1, _MAX_TOKENS_LIMIT),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=boolean(body, "parallel_tool_calls", otherwise=True),
        response_format=_format(body),
        top_logprobs=_top_logprobs(body),
        template_values=parse_template_values(body),
        stream=boolean(body, "stream"),
        request={name: value for name, value in body.items() if name not in _MESSAGES},
        extra=_extra(body),
    )


def check_choice(call: Call) -> None:
    """Refuse a choice of tools that only another server has. One that speaks this wire judges for itself.

    Raises:
        BadRequest: the tool that must be called is no function.
    """
    choice = call.tool_choice
    kind = choice.get("type") if isinstance(choice, dict) else "function"
    if kind != "function":
        hint = "Name one of the function tools, or set tool_choice to auto."
        raise BadRequest(f"'tool_choice' asks for a tool of the type {str(kind)[:60]!r}, which is not here.", hint, param="tool_choice")
    parse_tool_choice({"tool_choice": choice}, call.tools)


def wanted_of(body: JSONObject) -> Wanted:
    """What a body that `parse` has accepted asks for."""
    reasoning, include = an_object(body, "reasoning") or {}, array(body, "include")
    summary = reasoning.get("summary") or reasoning.get("generate_summary")
    return Wanted(
        summary=summary not in (None, "none"),
        encrypted=_ENCRYPTED in include or body.get("store") is False,
        logprobs=_top_logprobs(body) is not None,
    )


def _refuse_stored(body: JSONObject) -> None:
    for name in ("previous_response_id", "conversation", "prompt"):
        if body.get(name) is not None:
            raise BadRequest(f"'{name}' names what would have to be stored here.", _STATELESS, param=name)
    if body.get("background"):
        raise BadRequest("'background' asks for a reply to be fetched later.", "Reef keeps none: leave it out.", param="background")
    truncation = body.get("truncation")
    if truncation not in (None, "auto", "disabled"):
        raise bad("truncation", "auto or disabled", truncation)


def _tools(body: JSONObject) -> tuple[JSONObject, ...]:
    """The function tools in chat form; other types (`web_search`, `namespace`, `custom`, …) are skipped."""
    found: list[JSON] = []
    for index, tool in enumerate(array(body, "tools")):
        if not isinstance(tool, dict):
            raise bad(f"tools[{index}]", "an object", tool)
        if tool.get("type", "function") != "function":
            continue
        if not isinstance(tool.get("name"), str) and "function" not in tool:
            raise bad(f"tools[{index}].name", "a text", tool.get("name"))
        if tool.get("parameters") is not None and not isinstance(tool["parameters"], dict):
            raise bad(f"tools[{index}].parameters", "an object", tool["parameters"])
        found.append(chat_tool({"type": "function", **tool}))
    return parse_tools({"tools": found})


def _choice(body: JSONObject, tools: tuple[JSONObject, ...]) -> tuple[tuple[JSONObject, ...], JSON]:
    """Which of the tools there are for this request, and the choice among them in chat form."""
    choice = body.get("tool_choice")
    if choice == "required" and not tools:
        return tools, choice  # see `check_choice`
    if not isinstance(choice, dict):
        return tools, parse_tool_choice({"tool_choice": choice}, tools)
    kind = choice.get("type")
    if kind == "function" and "name" in choice:
        return tools, parse_tool_choice({"tool_choice": {"type": "function", "function": {"name": choice["name"]}}}, tools)
    if kind == "allowed_tools":
        names = [tool.get("name") for tool in array(choice, "tools") if isinstance(tool, dict)]
        tools = tuple(tool for tool in tools if isinstance(function := tool["function"], dict) and function.get("name") in names)
        return tools, parse_tool_choice({"tool_choice": choice.get("mode") if tools else "none"}, tools)
    if kind != "function" and isinstance(kind, str):
        return tools, choice  # see `check_choice`
    return tools, parse_tool_choice(body, tools)


def _format(body: JSONObject) -> JSONObject | None:
    """`text.format`, in which a schema lies beside its name, as the chat wire's `response_format`."""
    form = an_object(an_object(body, "text") or {}, "format")
    if form is None:
        return None
    if form.get("type") != "json_schema":
        kind = form.get("type")
        if kind not in ("text", "json_object"):
            raise bad("text.format", "of type text, json_object or json_schema", kind)
        return parse_response_format({"response_format": form})
    if not isinstance(form.get("schema"), dict):
        raise bad("text.format.schema", "an object", form.get("schema"))
    schema: JSONObject = {name: form[name] for name in ("name", "description", "schema", "strict") if form.get(name) is not None}
    return {"type": "json_schema", "json_schema": schema}


def _top_logprobs(body: JSONObject) -> int | None:
    alternatives = integer(body, "top_logprobs", 0, MAX_TOP_LOGPROBS)
    return (alternatives or 0) if alternatives or _LOGPROBS in array(body, "include") else None


def _extra(body: JSONObject) -> JSONObject:
    """What only an upstream may understand, as the chat wire names it."""
    found: JSONObject = {}
    if effort := text(an_object(body, "reasoning") or {}, "effort", limit=64):
        found["reasoning_effort"] = effort
    if verbosity := text(an_object(body, "text") or {}, "verbosity", limit=64):
        found["verbosity"] = verbosity
    return found

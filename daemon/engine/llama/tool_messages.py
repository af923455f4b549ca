"""Tools, calls and results as a chat template takes them."""

from __future__ import annotations

import hashlib
import json

from daemon import json_text
from daemon.engine.llama.call_style import calls_text
from daemon.engine.llama.tool_prompt import result_text
from daemon.engine.llama.traits import Traits
from daemon.records import JSON, JSONObject

IS_RESULT = "result"
"""Set on a user's message that holds what a tool gave back."""

_SHORT_ID = 9  # letters and digits, which Mistral's templates insist on


def described(tools: list[JSONObject]) -> list[JSONObject]:
    """The tools with everything that is optional, which some templates take for granted."""
    return [{**tool, "function": _described(tool.get("function"))} for tool in tools]


def _described(function: JSON) -> JSONObject:
    whole: JSONObject = {"description": "", **(function if isinstance(function, dict) else {})}
    parameters = whole.get("parameters")
    schema: JSONObject = {"type": "object", "properties": {}, "required": [], **(parameters if isinstance(parameters, dict) else {})}
    properties = schema["properties"]
    if isinstance(properties, dict):
        schema["properties"] = {
            name: {"type": "string", "description": "", **value} if isinstance(value, dict) else value for name, value in properties.items()
        }
    return {**whole, "parameters": schema}


def calls_of(message: JSONObject) -> list[JSONObject]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def with_names(messages: list[JSONObject]) -> list[JSONObject]:
    """Results carry the name of the tool, which some templates want."""
    names: dict[str, JSON] = {}
    named = []
    for message in messages:
        for call in calls_of(message):
            if isinstance(function := call.get("function"), dict):
                names[str(call.get("id"))] = function.get("name")
        if message.get("role") == "tool" and "name" not in message and (name := names.get(str(message.get("tool_call_id")))):
            message = {**message, "name": name}
        named.append(message)
    return named


def apart(message: JSONObject, traits: Traits) -> list[JSONObject]:
    """Text, reasoning and calls apart, where the template does not take them together."""
    if not calls_of(message) or not message["content"]:
        return [message]
    if traits.reasoning_beside_text or not message.get("reasoning_content"):
        if traits.text_beside_calls:
            return [message]
        text = {key: value for key, value in message.items() if key != "tool_calls"}
        return [text, {"role": message["role"], "content": "", "tool_calls": message["tool_calls"]}]
    return [{**message, "content": "", "reasoning_content": f"{message['reasoning_content']}\n\n{message['content']}"}]


def one_call_each(messages: list[JSONObject]) -> list[JSONObject]:
    """A message of several calls becomes one a call, each with its result behind it."""
    single: list[JSONObject] = []
    at = 0
    while at < len(messages):
        message, calls = messages[at], calls_of(messages[at])
        at += 1
        if len(calls) < 2:
            single.append(message)
            continue
        results: list[JSONObject] = []
        while at < len(messages) and messages[at].get("role") == "tool":
            results.append(messages[at])
            at += 1
        for call in calls:
            single.append({**message, "tool_calls": [call]})
            message = {"role": "assistant", "content": ""}
            own = [result for result in results if result.get("tool_call_id") == call.get("id")] or results[:1]
            single += own
            results = [result for result in results if result not in own]
        single += results
    return single


def as_text(message: JSONObject, style: str, results_as_text: bool) -> JSONObject:
    """Calls and results that the template leaves out, as text; calls in the given style, with none as they are."""
    if style and (calls := calls_of(message)):
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        return {**rest, "content": "\n".join(filter(None, (str(message["content"]), calls_text(calls, style))))}
    if results_as_text and message.get("role") == "tool":
        return {"role": "user", "content": result_text(str(message["content"])), IS_RESULT: True}
    return message


def one_after_another(messages: list[JSONObject]) -> list[JSONObject]:
    """Results that were written as text are one message of the user's."""
    merged: list[JSONObject] = []
    for message in messages:
        if message.get(IS_RESULT) and merged and merged[-1].get(IS_RESULT):
            merged[-1] = {**message, "content": f"{merged[-1]['content']}\n{message['content']}"}
        else:
            merged.append(message)
    return merged


def finished_call(call: JSONObject, traits: Traits) -> JSONObject:
    function = call.get("function")
    finished: JSONObject = {**call, "function": _finished_function(function, traits) if isinstance(function, dict) else {}}
    if traits.short_ids:
        finished["id"] = short_id(call.get("id"))
    return finished


def _finished_function(function: JSONObject, traits: Traits) -> JSONObject:
    arguments = function.get("arguments")
    if traits.arguments == "text":
        return {**function, "arguments": arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)}
    if not isinstance(arguments, str):
        return {**function, "arguments": {} if arguments is None else arguments}
    try:
        parsed = json_text.parse(arguments) if arguments.strip() else {}
    except ValueError:
        parsed = arguments
    return {**function, "arguments": parsed if isinstance(parsed, dict) else {"arguments": arguments}}


def short_id(call_id: JSON) -> str:
    """Always the same for one id."""
    text = str(call_id)
    if len(text) == _SHORT_ID and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_SHORT_ID]

"""Tools, calls and results as a chat template takes them."""

from __future__ import annotations

import hashlib
import json

from daemon import json_text
from daemon.engine.llama.chat.call_style import calls_text
from daemon.engine.llama.chat.tool_prompt import result_text
from daemon.engine.llama.chat.traits import Traits
from daemon.records import JSON, JSONObject

IS_RESULT = "result"
"""Set on a user's message that holds what a tool gave back."""

_SHORT_ID = 9  # letters and digits, which Mistral's templates insist on


def described(tools: list[JSONObject]) -> list[JSONObject]:
    """The tools with everything that is optional, which some templates take for granted."""
    return [{**tool, "function": _described(tool.get("function"))} for tool in tools]


def _described(function: JSON) -> JSONObject:
    whole = dict(function) if isinstance(function, dict) else {}
    description, parameters = whole.get("description"), whole.get("parameters")
    schema = _whole_schema(parameters if isinstance(parameters, dict) else {})
    schema = {"required": [], **schema, "type": "object", "properties": schema.get("properties", {})}
    return {**whole, "description": description if isinstance(description, str) else "", "parameters": schema}


def _whole_schema(schema: JSONObject) -> JSONObject:
    """With one type and a description here and in everything inside that is an argument."""
    whole = dict(schema)
    kinds = whole.get("type")
    if not isinstance(kinds, str):
        usual = "object" if "properties" in whole else "string"
        whole["type"] = next((kind for kind in kinds if kind != "null"), usual) if isinstance(kinds, list) else usual
    if not isinstance(whole.get("description"), str):
        whole["description"] = ""
    if whole["type"] == "object":
        whole.setdefault("additionalProperties", {"type": "string"})
    if "properties" in whole:
        properties = whole["properties"]
        inside = properties.items() if isinstance(properties, dict) else ()
        whole["properties"] = {name: _whole_schema(value if isinstance(value, dict) else {}) for name, value in inside}
    if isinstance(items := whole.get("items"), dict):
        whole["items"] = _whole_schema(items)
    return whole


def calls_of(message: JSONObject) -> list[JSONObject]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def linked(messages: list[JSONObject]) -> list[JSONObject]:
    """Every call has an id, and every result that of its call and the name of its tool: some templates want them, some clients leave
    them out. What has none is taken to answer the calls in turn."""
    names: dict[str, JSON] = {}
    unanswered: list[str] = []
    whole = []
    for message in messages:
        if calls := calls_of(message):
            calls = [
                {**call, "id": call["id"] if isinstance(call.get("id"), str) else f"call_{len(names) + n}"} for n, call in enumerate(calls)
            ]
            unanswered = [str(call["id"]) for call in calls]
            names |= {str(call["id"]): function.get("name") for call in calls if isinstance(function := call.get("function"), dict)}
            message = {**message, "tool_calls": [*calls]}
        elif message.get("role") == "tool":
            known = message.get("tool_call_id")
            answered = known if isinstance(known, str) else next(iter(unanswered), "call_0")
            unanswered = [call for call in unanswered if call != answered]
            name = message.get("name", names.get(answered))
            message = {**message, "tool_call_id": answered, **({"name": name} if name else {})}
        whole.append(message)
    return whole


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
            own = [result for result in results if result.get("tool_call_id") == call.get("id")]
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


def orphans_as_text(messages: list[JSONObject]) -> list[JSONObject]:
    """Results without a call before them, which is what cutting a long conversation leaves behind, as text of the user's."""
    kept: list[JSONObject] = []
    called = False
    for message in messages:
        if message.get("role") != "tool":
            called = bool(calls_of(message))
            kept.append(message)
        else:
            kept.append(message if called else as_text(message, "", True))
    return kept


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

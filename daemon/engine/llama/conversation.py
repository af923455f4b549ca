"""Brings a conversation into the form that a chat template can render: what templates demand differs, and clients send anything.

Nothing is moved to the front: a prompt then begins as the one of the turn before did. What is folded stays in its place.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace

from daemon import json_text
from daemon.engine.llama.tool_prompt import call_text, result_text, tool_prompt
from daemon.records import JSON, JSONObject

_REASONING = ("reasoning_content", "reasoning", "thinking")  # what clients call it
_RESULT = "result"  # set on a user's message that holds what a tool gave back
_SILENCE = " "  # an assistant's that said nothing
_SHORT_ID = 9  # letters and digits, which Mistral's templates insist on


@dataclass(frozen=True, slots=True)
class Traits:
    """What a template can render. Found by rendering small conversations (`template_traits`)."""

    tools: str = ""
    """The variable that it reads tools from, or "flat": `tools` without OpenAI's wrapping; empty: it knows none."""
    tools_always: bool = False
    """It wants a list of tools also where there are none."""
    arguments: str = ""
    """How it wants a past call's arguments, "object" or "text"; empty: it leaves calls out."""
    results: bool = False
    """It writes what tools gave back."""
    parallel: bool = True
    """It writes several calls of one message."""
    short_ids: bool = False
    """It refuses ids of calls that are not nine letters and digits."""
    null_content: bool = False
    """It writes the calls of a message only if there is no text beside them."""
    text_beside_calls: bool = True
    """It writes calls also where there is text beside them."""
    reasoning_beside_text: bool = True
    """It takes a message with reasoning, text and calls."""
    reasoning: str = ""
    """The field that it reads past reasoning from; empty: it reads none."""
    system: bool = True
    several_system: bool = True
    late_system: bool = True
    """It writes a system message in mid-conversation, in its place."""
    lone_system: bool = True
    """It writes a system message also where there is no user's."""
    free_turns: bool = True
    """Users and assistants need not take turns."""
    empty_turns: bool = True
    """It takes an assistant's message that says nothing."""

    @property
    def writes_calls(self) -> bool:
        return bool(self.arguments)

    @property
    def strictest(self) -> Traits:
        """As if it could do nothing that some templates cannot: the last try with a conversation that it refused."""
        return replace(
            self,
            parallel=False,
            text_beside_calls=False,
            reasoning_beside_text=False,
            system=False,
            late_system=False,
            free_turns=False,
            empty_turns=False,
        )


def arrange(messages: list[JSONObject], tools: list[JSONObject], traits: Traits) -> list[JSONObject]:
    """The conversation as a template with these traits takes it; the client's is not changed."""
    ours = bool(tools) and not traits.tools
    arranged = _with_names([_plain(message) for message in messages])
    if ours:
        arranged = _with_system(arranged, tool_prompt(tools))
    calls_as_text, results_as_text = ours or not traits.writes_calls, ours or not traits.results
    if not calls_as_text:
        arranged = [part for message in arranged for part in _split(message, traits)]
        if not traits.parallel:
            arranged = _one_call_each(arranged)
    arranged = _one_after_another([_written(message, calls_as_text, results_as_text) for message in arranged])
    if not traits.lone_system and all(message.get("role") == "system" for message in arranged):
        traits = replace(traits, system=False)
    arranged = _fold_system(arranged, traits)
    if not traits.free_turns:
        arranged = _take_turns(arranged)
    return [_finished(message, traits) for message in arranged]


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


def _plain(message: JSONObject) -> JSONObject:
    """Content as one text, no empty lists, the roles that templates know."""
    plain: JSONObject = {key: value for key, value in message.items() if value is not None and key != _RESULT}
    plain["content"] = _text(message.get("content"))
    if plain.get("role") == "developer":
        plain["role"] = "system"
    if reasoning := next((text for name in _REASONING if isinstance(text := plain.pop(name, None), str) and text.strip()), ""):
        plain["reasoning_content"] = reasoning
    calls = plain.pop("tool_calls", None)
    if isinstance(calls, list) and (kept := [call for call in calls if isinstance(call, dict) and isinstance(call.get("function"), dict)]):
        plain["tool_calls"] = [{"type": "function", **call} for call in kept]
    return plain


def _text(content: JSON) -> str:
    if isinstance(content, list):
        texts = [
            part if isinstance(part, str) else part.get("text", part.get("refusal")) for part in content if isinstance(part, str | dict)
        ]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _calls(message: JSONObject) -> list[JSONObject]:
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def _with_names(messages: list[JSONObject]) -> list[JSONObject]:
    """Results carry the name of the tool, which some templates want."""
    names: dict[str, JSON] = {}
    named = []
    for message in messages:
        for call in _calls(message):
            if isinstance(function := call.get("function"), dict):
                names[str(call.get("id"))] = function.get("name")
        if message.get("role") == "tool" and "name" not in message and (name := names.get(str(message.get("tool_call_id")))):
            message = {**message, "name": name}
        named.append(message)
    return named


def _with_system(messages: list[JSONObject], text: str) -> list[JSONObject]:
    first = messages[0]
    if first.get("role") == "system":
        return [{**first, "content": _joined(first, text)}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


def _split(message: JSONObject, traits: Traits) -> list[JSONObject]:
    """Text, reasoning and calls apart, where the template does not take them together."""
    if not _calls(message) or not message["content"]:
        return [message]
    if traits.reasoning_beside_text or not message.get("reasoning_content"):
        if traits.text_beside_calls:
            return [message]
        text = {key: value for key, value in message.items() if key != "tool_calls"}
        return [text, {"role": message["role"], "content": "", "tool_calls": message["tool_calls"]}]
    return [{**message, "content": "", "reasoning_content": f"{message['reasoning_content']}\n\n{message['content']}"}]


def _one_call_each(messages: list[JSONObject]) -> list[JSONObject]:
    """A message of several calls becomes one a call, each with its result behind it."""
    single: list[JSONObject] = []
    at = 0
    while at < len(messages):
        message, calls = messages[at], _calls(messages[at])
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


def _written(message: JSONObject, calls_as_text: bool, results_as_text: bool) -> JSONObject:
    """Calls and results that the template leaves out, as text."""
    if calls_as_text and (calls := _calls(message)):
        rest = {key: value for key, value in message.items() if key != "tool_calls"}
        return {
            **rest,
            "content": "\n".join([text for text in (message["content"],) if isinstance(text, str) and text] + [*map(call_text, calls)]),
        }
    if results_as_text and message.get("role") == "tool":
        return {"role": "user", "content": result_text(str(message["content"])), _RESULT: True}
    return message


def _one_after_another(messages: list[JSONObject]) -> list[JSONObject]:
    """Results that were written as text are one message of the user's."""
    merged: list[JSONObject] = []
    for message in messages:
        if message.get(_RESULT) and merged and merged[-1].get(_RESULT):
            merged[-1] = {**message, "content": f"{merged[-1]['content']}\n{message['content']}"}
        else:
            merged.append(message)
    return merged


def _fold_system(messages: list[JSONObject], traits: Traits) -> list[JSONObject]:
    """System messages that the template refuses or drops become a part of the one before, or the user's words where they stand."""
    folded: list[JSONObject] = []
    waiting: list[JSONObject] = []  # until the results of the calls before have come
    for index, message in enumerate(messages):
        leading = all(earlier.get("role") == "system" for earlier in folded)
        if message.get("role") != "system" or (leading and traits.system and (not folded or traits.several_system)):
            folded.append(message)
        elif leading and traits.system:
            folded[-1] = {**folded[-1], "content": _joined(folded[-1], str(message["content"]))}
        elif traits.system and traits.late_system and not leading:
            folded.append(message)
        else:
            waiting.append({**message, "role": "user"})
        following = messages[index + 1] if index + 1 < len(messages) else {}
        if following.get("role") != "tool":
            folded += waiting
            waiting = []
    return folded


def _take_turns(messages: list[JSONObject]) -> list[JSONObject]:
    """Neighbours of one role become one message; where a turn is missing, an empty one is put."""
    turns: list[JSONObject] = []
    for message in messages:
        role = message.get("role")
        before = turns[-1] if turns else {}
        last = before.get("role")
        if role == last and role in ("user", "assistant") and not (role == "assistant" and _calls(before)):
            merged = {**before, **message, "content": _joined(before, str(message["content"]))}
            turns[-1] = merged
            continue
        if role == "user" and (last == "tool" or (last == "assistant" and _calls(before))):
            turns.append({"role": "assistant", "content": ""})
        elif (role == "assistant" and last in (None, "system")) or (role == "assistant" and last == "assistant"):
            turns.append({"role": "user", "content": ""})
        turns.append(message)
    return turns


def _joined(message: JSONObject, text: str) -> str:
    return "\n\n".join(part for part in (str(message["content"]), text) if part)


def _finished(message: JSONObject, traits: Traits) -> JSONObject:
    """Names, ids and arguments in the template's form."""
    finished = {key: value for key, value in message.items() if key != _RESULT}
    if reasoning := finished.pop("reasoning_content", None):
        finished[traits.reasoning or "reasoning_content"] = reasoning
    if calls := _calls(finished):
        finished["tool_calls"] = [_finished_call(call, traits) for call in calls]
        if traits.null_content and not finished["content"]:
            finished["content"] = None
    elif finished.get("role") == "assistant" and not finished["content"] and not traits.empty_turns:
        finished["content"] = _SILENCE
    if traits.short_ids and "tool_call_id" in finished:
        finished["tool_call_id"] = _short_id(finished["tool_call_id"])
    return finished


def _finished_call(call: JSONObject, traits: Traits) -> JSONObject:
    function = call.get("function")
    finished: JSONObject = {**call, "function": _finished_function(function, traits) if isinstance(function, dict) else {}}
    if traits.short_ids:
        finished["id"] = _short_id(call.get("id"))
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


def _short_id(call_id: JSON) -> str:
    """Always the same for one id."""
    text = str(call_id)
    if len(text) == _SHORT_ID and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:_SHORT_ID]

"""Brings a conversation into the form that a chat template can render: what templates demand differs, and clients send anything.

Nothing is moved to the front: a prompt then begins as the one of the turn before did. What is folded stays in its place.
"""

from __future__ import annotations

from dataclasses import replace

from daemon.engine.llama.chat.tool_messages import (
    IS_RESULT,
    apart,
    as_text,
    calls_of,
    finished_call,
    linked,
    one_after_another,
    one_call_each,
    orphans_as_text,
    short_id,
)
from daemon.engine.llama.chat.tool_prompt import tool_prompt
from daemon.engine.llama.chat.traits import Traits
from daemon.records import JSON, JSONObject

_REASONING = ("reasoning_content", "reasoning", "thinking")  # what clients call it
_ROLES = {"developer": "system", "function": "tool"}  # new and old names
_SILENCE = " "  # an assistant's that said nothing


def arrange(messages: list[JSONObject], tools: list[JSONObject], traits: Traits) -> list[JSONObject]:
    """The conversation as a template with these traits takes it; the client's is not changed."""
    ours = bool(tools) and not traits.tools
    arranged = linked([_plain(message) for message in messages])
    if ours:
        arranged = _with_system(arranged, tool_prompt(tools))
    style = "hermes" if ours else "" if traits.writes_calls else traits.call_style
    if not traits.orphans:
        arranged = orphans_as_text(arranged)
    if not style:
        arranged = [part for message in arranged for part in apart(message, traits)]
        if not traits.parallel:
            arranged = one_call_each(arranged)
    arranged = one_after_another([as_text(message, style, ours or not traits.results) for message in arranged])
    if not traits.lone_system and all(message.get("role") == "system" for message in arranged):
        traits = replace(traits, system=False)
    arranged = _fold_system(arranged, traits)
    if not traits.free_turns:
        arranged = _take_turns(arranged)
    return [_finished(message, traits) for message in arranged]


def _plain(message: JSONObject) -> JSONObject:
    """Content as one text, no empty lists, the roles that templates know."""
    plain: JSONObject = {key: value for key, value in message.items() if value is not None and key != IS_RESULT}
    plain["content"] = _text(message.get("content"))
    role = plain.get("role")
    if isinstance(role, str) and role in _ROLES:
        plain["role"] = _ROLES[role]
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


def _with_system(messages: list[JSONObject], text: str) -> list[JSONObject]:
    first = messages[0]
    if first.get("role") == "system":
        return [{**first, "content": _joined(first, text)}, *messages[1:]]
    return [{"role": "system", "content": text}, *messages]


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
    """Neighbours of one role become one message; where a turn is missing, an empty one is put. Calls and results are no turns."""
    turns: list[JSONObject] = []
    speaker = ""  # of the last turn
    for message in messages:
        role, before = message.get("role"), turns[-1] if turns else {}
        speaks = role in ("user", "assistant") and not calls_of(message)
        if role in ("user", "assistant") and role == before.get("role") and not calls_of(before):
            turns[-1] = {**before, **message, "content": _joined(before, str(message["content"]))}
            speaker = speaker if speaks else "user"  # who spoke before the text that now has calls beside it
            continue
        if role == "user" and speaker == "user":
            turns.append({"role": "assistant", "content": ""})
        elif role == "assistant" and (speaker != "user" if speaks else not speaker):
            turns.append({"role": "user", "content": ""})
            speaker = "user"
        turns.append(message)
        speaker = str(role) if speaks else speaker
    return turns


def _joined(message: JSONObject, text: str) -> str:
    return "\n\n".join(part for part in (str(message["content"]), text) if part)


def _finished(message: JSONObject, traits: Traits) -> JSONObject:
    """Names, ids and arguments in the template's form."""
    finished = {key: value for key, value in message.items() if key != IS_RESULT}
    if reasoning := finished.pop("reasoning_content", None):
        finished[traits.reasoning or "reasoning_content"] = reasoning
    if calls := calls_of(finished):
        finished["tool_calls"] = [finished_call(call, traits) for call in calls]
        if traits.null_content and not finished["content"]:
            finished["content"] = None
    elif finished.get("role") == "assistant" and not finished["content"] and not traits.empty_turns:
        finished["content"] = _SILENCE
    if traits.short_ids and "tool_call_id" in finished:
        finished["tool_call_id"] = short_id(finished["tool_call_id"])
    return finished

"""ShareGPT lines, with tools as LLaMA-Factory writes them: calls and their results are entries of their own, without ids."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from daemon.exporting.conversation import Conversation, Format
from daemon.importing.messages import text_of
from daemon.importing.sharegpt import arguments_of, call_text
from daemon.records import JSON, JSONObject, Message
from daemon.tool_forms import chat_tools

_FROM = {"system": "system", "developer": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


class ShareGPTFormat(Format):
    name = "sharegpt"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        for dialogue in conversation.dialogues(good_only):
            messages = [*dialogue.prompt, dialogue.reply]
            leading = 0
            while leading < len(messages) and _FROM.get(str(messages[leading].get("role"))) == "system":
                leading += 1
            line: JSONObject = {"conversations": list(_entries(messages[leading:]))}
            system = "\n\n".join(text_of(message.get("content")) for message in messages[:leading])
            if system:
                line["system"] = system
            if tools := [tool["function"] for tool in chat_tools(dialogue.turn.inference.request)]:
                line["tools"] = json.dumps(tools, ensure_ascii=False)
            yield line


def _entries(messages: Iterable[Message]) -> Iterator[JSON]:
    for message in messages:
        text, calls = text_of(message.get("content")), message.get("tool_calls")
        made = [_call(call) for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
        if text or not made:
            yield {"from": _FROM.get(str(message.get("role")), "human"), "value": text}
        if made:
            yield {"from": "function_call", "value": call_text(made)}


def _call(call: JSONObject) -> JSONObject:
    function = call.get("function")
    named = function if isinstance(function, dict) else {}
    return {"name": named.get("name"), "arguments": arguments_of(named.get("arguments"))}

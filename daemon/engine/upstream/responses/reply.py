"""A reply of another server on the responses wire as events of ours.

Servers differ in how much they stream: some send every delta, some only whole items, some only the last event. What an item says is taken
from whichever comes first, and what comes later adds only what is still missing.
"""

from __future__ import annotations

import json

from daemon.engine.base import Delta, Event, Finished
from daemon.engine.upstream.chat.reply import logprobs_of, whole
from daemon.engine.upstream.errors import stream_error
from daemon.engine.upstream.json_reading import read_value
from daemon.engine.upstream.reader import ReplyReader
from daemon.errors import EngineError
from daemon.records import JSON, JSONObject, Usage

_ENDS = frozenset({"response.completed", "response.incomplete"})
_TEXTS = frozenset({"response.output_text.delta", "response.refusal.delta"})
_REASONING = frozenset({"response.reasoning_text.delta", "response.reasoning_summary_text.delta"})
_ARGUMENTS = "response.function_call_arguments.delta"
_CALLS = frozenset({"function_call", "custom_tool_call"})
_BROKEN_OFF = EngineError("The upstream broke off in the middle of its reply.", "Send the request again.")


class ResponsesReader(ReplyReader):
    """One reply, taken in event by event."""

    def __init__(self) -> None:
        self._said: dict[int, list[str]] = {}  # text or arguments of each item, by its place in the output
        self._thought: dict[int, list[str]] = {}
        self._calls: dict[int, int] = {}  # place in the output → index among the calls
        self._usage = Usage(0, 0)
        self._pieces = 0
        self._finish_reason = ""

    @property
    def closing(self) -> bool:
        return bool(self._finish_reason)

    def take(self, data: str) -> list[Event]:
        if data == "[DONE]":  # some send it, though this wire has none
            return []
        event = read_value(data)
        if not isinstance(event, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        found = self._take(event, str(event.get("type")))
        self._pieces += len(found)
        return list(found)

    def take_whole(self, body: JSONObject) -> list[Event]:
        if body.get("error") is not None or body.get("status") == "failed":
            raise stream_error(body.get("error"))
        if not isinstance(body.get("output"), list):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        return list(self._end(body))

    def finished(self) -> Finished:
        if not self._finish_reason:
            raise EngineError(_BROKEN_OFF.message, _BROKEN_OFF.hint)
        usage = self._usage if self._usage.completion_tokens else Usage(self._usage.prompt_tokens, self._pieces)
        return Finished(self._finish_reason, usage)

    def _take(self, event: JSONObject, kind: str) -> list[Delta]:
        place = whole(event.get("output_index"))
        if kind in _TEXTS:
            shown = logprobs_of({"content": event.get("logprobs")})
            return self._say(place, _text(event.get("delta")), shown)
        if kind in _REASONING:
            return self._think(place, _text(event.get("delta")))
        if kind == _ARGUMENTS:
            return self._call(place, {}, _text(event.get("delta")))
        if kind in ("response.output_item.added", "response.output_item.done"):
            item = event.get("item")
            return self._item(place, item, done=kind.endswith("done")) if isinstance(item, dict) else []
        if kind == "response.reasoning_summary_part.added" and whole(event.get("summary_index")):
            return self._think(place, "\n\n")
        response = event.get("response")
        if kind in _ENDS:
            return self._end(response if isinstance(response, dict) else {})
        if kind in ("response.failed", "error"):
            error = response.get("error") if isinstance(response, dict) else event.get("error")
            raise stream_error(error or event)
        return []

    def _end(self, response: JSONObject) -> list[Delta]:
        found: list[Delta] = []
        output = response.get("output")
        for place, item in enumerate(output if isinstance(output, list) else []):
            if isinstance(item, dict):
                found += self._item(place, item, done=True)
        self._take_usage(response.get("usage"))
        details = response.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        if reason is not None or response.get("status") == "incomplete":
            self._finish_reason = "content_filter" if reason == "content_filter" else "length"
        else:
            self._finish_reason = "tool_calls" if self._calls else "stop"
        return found

    def _item(self, place: int, item: JSONObject, *, done: bool) -> list[Delta]:
        """What an item says that has not been said yet."""
        kind = item.get("type")
        if isinstance(kind, str) and kind in _CALLS:
            first = self._call(place, item, "") if place not in self._calls else []
            given = _text(item.get("arguments")) or _text(item.get("input"))
            if kind == "custom_tool_call":  # its input is no JSON: the record holds it as the one argument of a function
                return first + (self._call(place, item, json.dumps({"input": given})) if done and not any(self._said[place]) else [])
            return first + self._call(place, item, _rest(given, self._said[place]))
        if not done:
            return []
        if kind == "reasoning":
            text = _joined(item.get("content")) or _joined(item.get("summary"))
            return self._think(place, _rest(text, self._thought.get(place, [])))
        if kind == "message":
            shown = logprobs_of({"content": _logprobs(item)}) if place not in self._said else ()
            return self._say(place, _rest(_joined(item.get("content"), ""), self._said.get(place, [])), shown)
        return []

    def _say(self, place: int, text: str, logprobs: tuple[JSONObject, ...]) -> list[Delta]:
        self._said.setdefault(place, []).append(text)
        return [Delta(text=text, logprobs=logprobs)] if text or logprobs else []

    def _think(self, place: int, text: str) -> list[Delta]:
        self._thought.setdefault(place, []).append(text)
        return [Delta(reasoning=text)] if text else []

    def _call(self, place: int, item: JSONObject, arguments: str) -> list[Delta]:
        index = self._calls.get(place)
        if index is not None and not arguments:
            return []
        delta: JSONObject = {"function": {"arguments": arguments}}
        if index is None:
            index = self._calls[place] = len(self._calls)
            identity = item.get("call_id") or item.get("id")
            delta = {"id": identity, "type": "function", "function": {"name": item.get("name"), "arguments": arguments}}
        self._said.setdefault(place, []).append(arguments)
        return [Delta(tool_calls=({"index": index, **delta},))]

    def _take_usage(self, usage: JSON) -> None:
        if isinstance(usage, dict):
            details = usage.get("input_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            details = usage.get("output_tokens_details")
            reasoning = details.get("reasoning_tokens") if isinstance(details, dict) else 0
            self._usage = Usage(whole(usage.get("input_tokens")), whole(usage.get("output_tokens")), whole(cached), whole(reasoning))


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _rest(text: str, pieces: list[str]) -> str:
    """What `text` says beyond `pieces`; nothing where it says something else, for what was streamed stands."""
    said = "".join(pieces)
    return text[len(said) :] if text.startswith(said) else ""


def _joined(parts: JSON, between: str = "\n\n") -> str:
    found = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return between.join(_text(part.get("text")) or _text(part.get("refusal")) for part in found)


def _logprobs(item: JSONObject) -> list[JSON]:
    content = item.get("content")
    parts = [part.get("logprobs") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    return [entry for part in parts if isinstance(part, list) for entry in part]

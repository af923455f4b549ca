"""A reply of a server that speaks Anthropic's messages wire, as events: streamed or whole."""

from __future__ import annotations

import json
from collections.abc import Mapping

from daemon.engine.base import Delta, Event, Finished
from daemon.engine.upstream.chat.reply import whole
from daemon.engine.upstream.errors import refusal
from daemon.engine.upstream.json_reading import read_value
from daemon.engine.upstream.reader import ReplyReader
from daemon.errors import EngineError, ReefError
from daemon.records import JSON, JSONObject, Usage

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
}


class MessagesReader(ReplyReader):
    """One reply, taken in event by event or whole."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._reason = ""
        self._stop_sequence = ""
        self._ended = False
        self._calls: dict[int, int] = {}  # a block's index: its call's place among the calls
        self._given: dict[int, JSONObject] = {}  # the input in a call's first event, which counts where no other comes

    @property
    def closing(self) -> bool:
        return self._ended

    def take(self, data: str) -> list[Event]:
        event = read_value(data)
        if not isinstance(event, dict):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        kind = event.get("type")
        if kind == "error" or (kind is None and "error" in event):
            raise _failure(event.get("error"))
        if kind == "message_start":
            message = event.get("message")
            self._count(message.get("usage") if isinstance(message, dict) else None)
        elif kind == "content_block_start":
            return _shown(self._begin(whole(event.get("index")), event.get("content_block")))
        elif kind == "content_block_delta":
            return _shown(self._more(whole(event.get("index")), event.get("delta")))
        elif kind == "content_block_stop":
            return _shown(self._stop(whole(event.get("index"))))
        elif kind == "message_delta":
            self._count(event.get("usage"))
            self._note_end(event.get("delta"))
        elif kind == "message_stop":
            self._ended = True
        return []

    def take_whole(self, body: JSONObject) -> list[Event]:
        if body.get("type") == "error" or "error" in body:
            raise _failure(body.get("error"))
        content = body.get("content")
        if not isinstance(content, list):
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.")
        self._count(body.get("usage"))
        self._note_end(body)
        self._ended = True
        found: list[Event] = []
        for index, block in enumerate(content):
            found += _shown(self._begin(index, block)) + _shown(self._stop(index))
        return found

    def finished(self) -> Finished:
        if not self._reason or not self._ended:
            raise EngineError("The upstream broke off in the middle of its reply.", "Send the request again.")
        counts = self._counts
        cached = counts.get("cache_read_input_tokens", 0)
        prompt = counts.get("input_tokens", 0) + counts.get("cache_creation_input_tokens", 0) + cached
        usage = Usage(prompt, counts.get("output_tokens", 0), cached, counts.get("thinking_tokens", 0))
        return Finished(_FINISH_REASONS.get(self._reason, "stop"), usage, stop_sequence=self._stop_sequence)

    def _begin(self, index: int, block: JSON) -> Delta:
        if not isinstance(block, dict):
            return Delta()
        kind = block.get("type")
        if kind == "tool_use":
            place = self._calls[index] = len(self._calls)
            given = block.get("input")
            self._given[index] = given if isinstance(given, dict) else {}
            function: JSONObject = {"name": _text(block, "name"), "arguments": ""}
            return Delta(tool_calls=({"index": place, "id": _text(block, "id"), "type": "function", "function": function},))
        return Delta(text=_text(block, "text") if kind == "text" else "", reasoning=_text(block, "thinking") if kind == "thinking" else "")

    def _more(self, index: int, delta: JSON) -> Delta:
        if not isinstance(delta, dict):
            return Delta()
        kind = delta.get("type")
        if kind == "input_json_delta" and index in self._calls:
            piece = _text(delta, "partial_json")
            if piece:
                self._given.pop(index, None)
            return self._arguments(index, piece)
        return Delta(
            text=_text(delta, "text") if kind == "text_delta" else "",
            reasoning=_text(delta, "thinking") if kind == "thinking_delta" else "",
        )

    def _stop(self, index: int) -> Delta:
        given = self._given.pop(index, None)
        return self._arguments(index, json.dumps(given, ensure_ascii=False)) if given is not None else Delta()

    def _arguments(self, index: int, piece: str) -> Delta:
        call: JSONObject = {"index": self._calls[index], "function": {"arguments": piece}}
        return Delta(tool_calls=(call,)) if piece else Delta()

    def _count(self, usage: JSON) -> None:
        """Later counts replace earlier ones; those that are left out stand."""
        if isinstance(usage, dict):
            self._counts.update({name: whole(value) for name, value in usage.items() if isinstance(value, int)})
            details = usage.get("output_tokens_details")
            if isinstance(details, dict):
                self._counts["thinking_tokens"] = whole(details.get("thinking_tokens"))

    def _note_end(self, said: JSON) -> None:
        if isinstance(said, dict):
            self._reason = _text(said, "stop_reason") or self._reason
            self._stop_sequence = _text(said, "stop_sequence") or self._stop_sequence


def _failure(error: JSON) -> ReefError:
    kind = error.get("type") if isinstance(error, dict) else None
    return refusal(_STATUSES.get(kind, 500) if isinstance(kind, str) else 500, {"error": error})


def _shown(delta: Delta) -> list[Event]:
    return [] if delta == Delta() else [delta]


def _text(holder: Mapping[str, JSON], name: str) -> str:
    value = holder.get(name)
    return value if isinstance(value, str) else ""

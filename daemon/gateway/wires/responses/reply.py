"""How the responses wire writes a reply: typed events with running numbers, or one object."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence

from daemon.errors import Busy, ContextOverflow, ReefError
from daemon.gateway.errors import json_bytes
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.form import ReplyForm
from daemon.gateway.wires.responses.output import COMPLETED, IN_PROGRESS, INCOMPLETE, Output
from daemon.gateway.wires.responses.request import wanted_of
from daemon.records import JSON, JSONObject, Usage

_ID = re.compile(rb'"id"\s*:\s*"(resp_[A-Za-z0-9_-]{1,200})"')
_REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a reply is incomplete, by its finish reason."""


class ResponsesReply(ReplyForm):
    """One reply. Its id is `resp_` and the record's own part of its id."""

    def __init__(self, record_id: str, body: JSONObject) -> None:
        """`body`: the request, which the reply repeats."""
        self._stem = record_id.rpartition("_")[2]
        self._wanted = wanted_of(body)
        self._output = Output(self._stem, self._wanted)
        self._response = {"id": f"resp_{self._stem}", "object": "response", "created_at": int(time.time()), **_repeated(body)}
        self._sent = 0  # events

    def opening(self, index: int) -> list[bytes]:
        response = self._as(IN_PROGRESS)
        return self._frames([{"type": "response.created", "response": response}, {"type": "response.in_progress", "response": response}])

    def piece(self, index: int, piece: Piece) -> list[bytes]:
        return self._frames(self._output.take(piece))

    def passed(self, frame: bytes) -> None:
        if not self._sent and (found := _ID.search(frame)):
            self._response["id"] = found[1].decode("ascii")
        self._sent += 1

    def closing(self, index: int, done: Done) -> list[bytes]:
        return []  # there is one choice, and it ends the stream

    def ending(self, index: int, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> list[bytes]:
        reason = choices[index].inference.finish_reason
        events = self._output.end(cut=reason in _REASONS)
        response = self._ended(self._output, reason, usage)
        return self._frames([*events, {"type": f"response.{response['status']}", "response": response, "reef": reef}])

    def failure(self, error: ReefError, reef: JSONObject) -> list[bytes]:
        frames = [] if self._sent else self.opening(0)
        self._output.break_off()
        response: JSONObject = {
            **self._as("failed"),
            "error": {"code": _code(error), "message": str(error)},
            "output": self._output.items(),
        }
        event: JSONObject = {"type": "response.failed", "response": response}
        return frames + self._frames([{**event, "reef": reef} if reef else event])

    def whole(self, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> JSONObject:
        done = choices[0]
        output, reason = Output(self._stem, self._wanted), done.inference.finish_reason
        for piece in _pieces(done):
            output.take(piece)
        output.end(cut=reason in _REASONS)
        return {**self._ended(output, reason, usage), "reef": reef}

    def _as(self, status: str) -> JSONObject:
        return {**self._response, "status": status, "completed_at": None, "error": None, "incomplete_details": None, "usage": None}

    def _ended(self, output: Output, reason: str, usage: Usage) -> JSONObject:
        because = _REASONS.get(reason)
        return {
            **self._as(INCOMPLETE if because else COMPLETED),
            "completed_at": None if because else int(time.time()),
            "incomplete_details": {"reason": because} if because else None,
            "output": output.items(),
            "usage": usage_object(usage),
        }

    def _frames(self, events: Sequence[JSONObject]) -> list[bytes]:
        frames = []
        for event in events:
            kind = str(event["type"])
            frames.append(b"event: %s\ndata: %s\n\n" % (kind.encode(), json_bytes({**event, "sequence_number": self._sent})))
            self._sent += 1
        return frames


def usage_object(usage: Usage) -> JSONObject:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _repeated(body: JSONObject) -> JSONObject:
    """What a reply says of its request, at the defaults of the wire where the request is silent."""

    def given(name: str, otherwise: JSON) -> JSON:
        value = body.get(name)
        return otherwise if value is None else value

    reasoning, text, metadata = body.get("reasoning"), body.get("text"), body.get("metadata")
    thinking = reasoning if isinstance(reasoning, dict) else {}
    written = text if isinstance(text, dict) else {}
    return {
        "background": False,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "metadata": metadata if isinstance(metadata, dict) else {},
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": given("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": thinking.get("effort"), "summary": thinking.get("summary")},
        "store": False,
        "temperature": given("temperature", 1.0),
        "text": {**written, "format": written.get("format") or {"type": "text"}},
        "tool_choice": given("tool_choice", "auto"),
        "tools": given("tools", []),
        "top_logprobs": given("top_logprobs", 0),
        "top_p": given("top_p", 1.0),
        "truncation": "disabled",
    }


def _pieces(done: Done) -> list[Piece]:
    """A reply that is complete, in the order in which models write: reasoning, text, calls."""
    reply = done.inference.reply
    pieces = [Piece({"reasoning_content": reply["reasoning_content"]})] if reply.get("reasoning_content") else []
    if text := reply.get("content"):
        pieces.append(Piece({"content": text}, done.logprobs))
    calls = reply.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else []):
        if isinstance(call, dict):
            pieces.append(Piece({"tool_calls": [{"index": index, **call}]}))
    return pieces


def _code(error: ReefError) -> str:
    """Agents look at this: they compact, wait or give up."""
    if isinstance(error, ContextOverflow):
        return error.code
    if isinstance(error, Busy):
        return "rate_limit_exceeded"
    return "server_error" if error.status >= 500 else "invalid_prompt"

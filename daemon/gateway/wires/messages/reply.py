"""Replies on the Anthropic messages wire: named events for blocks that open, grow and close, or one message."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from daemon import json_text
from daemon.errors import ReefError
from daemon.gateway.errors import Shape, error_object, json_bytes
from daemon.gateway.sse import KEEP_ALIVE
from daemon.gateway.steps import Done, Piece
from daemon.gateway.wires.form import ReplyForm
from daemon.gateway.wires.messages.request import Thinking
from daemon.gateway.wires.messages.thinking import signature_of
from daemon.records import JSON, JSONObject, Usage

_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}


@dataclass(slots=True)
class _Block:
    index: int
    kind: str  # "thinking", "text", "tool_use"
    said: list[str] = field(default_factory=list)  # reasoning, or a call's arguments
    closed: bool = False


class MessagesReply(ReplyForm):
    """One message; there is only ever one choice on this wire."""

    def __init__(self, record_id: str, model: str, thinking: Thinking) -> None:
        self._id = f"msg_{record_id.rpartition('_')[2]}"  # agents keep it, and it names the record
        self._model = model
        self._thinking = thinking
        self._open: list[_Block] = []
        self._calls: dict[int, _Block] = {}  # by their places among the calls
        self._blocks = 0
        self._begun = False

    @property
    def keep_alive(self) -> bytes:
        """An event of the wire's own; before the first one, only a comment may go out."""
        return _event("ping", {}) if self._begun else KEEP_ALIVE

    def opening(self, index: int) -> list[bytes]:
        self._begun = True
        head = self._message([], None, "", Usage(self.prompt_tokens, 0))
        return [_event("message_start", {"message": head})]

    def piece(self, index: int, piece: Piece) -> list[bytes]:
        frames: list[bytes] = []
        delta = piece.delta
        reasoning, text, calls = delta.get("reasoning_content"), delta.get("content"), delta.get("tool_calls")
        if isinstance(reasoning, str) and reasoning and self._thinking.shown:
            frames += self._more_thinking(reasoning)
        if isinstance(text, str) and text:
            frames += self._more_text(text)
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                frames += self._more_of_call(call)
        return frames

    def closing(self, index: int, done: Done) -> list[bytes]:
        usage = usage_object(done.inference.usage)
        reason, sequence = _stop(done)
        delta: JSONObject = {"stop_reason": reason, "stop_sequence": sequence}
        return [*self._close_all(), _event("message_delta", {"delta": delta, "usage": usage})]

    def ending(self, index: int, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> list[bytes]:
        return [*self.closing(index, choices[index]), _event("message_stop", {"reef": reef})]

    def failure(self, error: ReefError, reef: JSONObject) -> list[bytes]:
        body = error_object(error, Shape.ANTHROPIC)
        return [_event("error", {**body, "reef": reef} if reef else body)]

    def whole(self, choices: Sequence[Done], usage: Usage, reef: JSONObject) -> JSONObject:
        done = choices[0]
        reply = done.inference.reply
        content: list[JSON] = []
        reasoning, text, calls = reply.get("reasoning_content"), reply.get("content"), reply.get("tool_calls")
        if isinstance(reasoning, str) and reasoning and self._thinking.shown:
            hidden = self._thinking.in_signature
            signature = signature_of(reasoning, carried=hidden)
            content.append({"type": "thinking", "thinking": "" if hidden else reasoning, "signature": signature})
        if isinstance(text, str) and text:
            content.append({"type": "text", "text": text})
        content += [_tool_use(call) for call in (calls if isinstance(calls, list) else []) if isinstance(call, dict)]
        reason, sequence = _stop(done)
        return {**self._message(content, reason, sequence or "", usage), "reef": reef}

    def _message(self, content: list[JSON], reason: str | None, sequence: str, usage: Usage) -> JSONObject:
        return {
            "id": self._id,
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": content,
            "stop_reason": reason,
            "stop_sequence": sequence or None,
            "usage": usage_object(usage),
        }

    def _more_thinking(self, reasoning: str) -> list[bytes]:
        frames = self._opened("thinking", {"type": "thinking", "thinking": "", "signature": ""})
        block = self._open[-1]
        block.said.append(reasoning)
        if not self._thinking.in_signature:
            frames.append(_delta(block, {"type": "thinking_delta", "thinking": reasoning}))
        return frames

    def _more_text(self, text: str) -> list[bytes]:
        frames = self._opened("text", {"type": "text", "text": ""})
        return [*frames, _delta(self._open[-1], {"type": "text_delta", "text": text})]

    def _more_of_call(self, call: JSONObject) -> list[bytes]:
        place, function = call.get("index"), call.get("function")
        place, function = place if isinstance(place, int) else 0, function if isinstance(function, dict) else {}
        frames: list[bytes] = []
        if "id" in call:
            frames += self._close_last()
            shown: JSONObject = {"type": "tool_use", "id": call["id"], "name": function.get("name"), "input": {}}
            frames += self._begin("tool_use", shown)
            self._calls[place] = self._open[-1]
        block, arguments = self._calls.get(place), function.get("arguments")
        if block is None or block.closed or not isinstance(arguments, str) or not arguments:
            return frames
        block.said.append(arguments)
        return [*frames, _delta(block, {"type": "input_json_delta", "partial_json": arguments})]

    def _opened(self, kind: str, shown: JSONObject) -> list[bytes]:
        """The frames that make the last open block one of `kind`; none where it is."""
        if self._open and self._open[-1].kind == kind:
            return []
        return [*self._close_last(), *self._begin(kind, shown)]

    def _begin(self, kind: str, shown: JSONObject) -> list[bytes]:
        block = _Block(self._blocks, kind)
        self._blocks += 1
        self._open.append(block)
        return [_event("content_block_start", {"index": block.index, "content_block": shown})]

    def _close_last(self) -> list[bytes]:
        """Close the block before a new one, unless it is a call whose arguments are not whole yet: a server may still go on with that."""
        if not self._open or (self._open[-1].kind == "tool_use" and _arguments("".join(self._open[-1].said)) is None):
            return []
        return self._closed(self._open.pop())

    def _close_all(self) -> list[bytes]:
        blocks, self._open = self._open, []
        return [frame for block in blocks for frame in self._closed(block)]

    def _closed(self, block: _Block) -> list[bytes]:
        block.closed = True
        stop = _event("content_block_stop", {"index": block.index})
        if block.kind != "thinking":
            return [stop]
        signature = signature_of("".join(block.said), carried=self._thinking.in_signature)
        return [_delta(block, {"type": "signature_delta", "signature": signature}), stop]


def usage_object(usage: Usage) -> JSONObject:
    """On this wire, what was found in the cache does not count among the input tokens."""
    return {
        "input_tokens": max(0, usage.prompt_tokens - usage.cached_tokens),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _stop(done: Done) -> tuple[str, str | None]:
    """Why the reply ended, and the stop sequence if it was one and the engine has told which."""
    reason = done.inference.finish_reason
    if reason == "stop" and done.stop_sequence:
        return "stop_sequence", done.stop_sequence
    return _STOP_REASONS.get(reason, "end_turn"), None


def _tool_use(call: JSONObject) -> JSONObject:
    function = call.get("function")
    known = function if isinstance(function, dict) else {}
    text = known.get("arguments")
    given = text if isinstance(text, str) else ""
    arguments = _arguments(given)
    if arguments is None:  # cut short, or no object: the tool will say what it misses
        arguments = {"arguments": given} if given.strip() else {}
    return {"type": "tool_use", "id": call.get("id"), "name": known.get("name"), "input": arguments}


def _arguments(text: str) -> JSONObject | None:
    """None for what is no JSON object."""
    try:
        value = json_text.parse(text)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _delta(block: _Block, delta: JSONObject) -> bytes:
    return _event("content_block_delta", {"index": block.index, "delta": delta})


def _event(name: str, content: JSONObject) -> bytes:
    return f"event: {name}\ndata: ".encode() + json_bytes({"type": name, **content}) + b"\n\n"

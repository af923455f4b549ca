"""Reads a chat reply, whole or streamed, and lists what a client would trip over."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from daemon.conformance.outcome import shorten
from daemon.conformance.shapes import a_count, a_text, an_object, objects
from daemon.records import JSON, JSONObject

_REASONS = ("stop", "length", "tool_calls", "content_filter")


@dataclass(frozen=True, slots=True)
class ToolCall:
    id: str
    name: str
    arguments: str  # JSON text, as the server sent it


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. `problems` are sentences: where the protocol was broken."""

    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str = ""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    note: str = ""  # Reef's: what the engine has to say of the reply
    problems: tuple[str, ...] = ()

    @property
    def content(self) -> tuple[str, tuple[tuple[str, str], ...]]:
        """What must be the same, streamed or not: the text, and each call without its id."""
        return self.text, tuple((call.name, call.arguments) for call in self.calls)


def read_whole(body: JSONObject) -> Reply:
    """A reply that was not streamed."""
    problems: list[str] = []
    choices = objects(body.get("choices"))
    if not choices:
        return Reply(problems=("The reply has no choices.",))
    message = an_object(choices[0].get("message"))
    if not a_text(body.get("id")):
        problems.append("The reply has no id.")
    if message.get("role") != "assistant":
        problems.append(f"The message's role is {message.get('role')!r}, not 'assistant'.")
    if message.get("content") is not None and not isinstance(message.get("content"), str):
        problems.append("The message's content is neither a text nor null.")
    calls: list[ToolCall] = []
    for call in objects(message.get("tool_calls")):
        function = an_object(call.get("function"))
        if not a_text(call.get("id")):
            problems.append("A tool call has no id, so its result cannot be told apart.")
        if call.get("type") != "function":
            problems.append(f"A tool call's type is {call.get('type')!r}, not 'function'.")
        if not isinstance(function.get("arguments"), str):
            problems.append("A tool call's arguments are not a text.")
        calls.append(ToolCall(a_text(call.get("id")), a_text(function.get("name")), a_text(function.get("arguments"))))
    reason = a_text(choices[0].get("finish_reason"))
    problems += _judge_end(reason, calls)
    return _reply(
        a_text(message.get("content")),
        a_text(message.get("reasoning_content")) or a_text(message.get("reasoning")),
        calls,
        reason,
        an_object(body.get("usage")),
        an_object(body.get("reef")),
        problems,
    )


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)


class StreamReader:
    """Puts a stream's chunks together; `add` takes each chunk, `end` what came after the last."""

    def __init__(self) -> None:
        self._ids: set[str] = set()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, _Call] = {}
        self._reasons: list[str] = []
        self._usage: JSONObject = {}
        self._reef: JSONObject = {}
        self._problems: list[str] = []
        self.error = ""

    def add(self, chunk: JSONObject) -> None:
        if "error" in chunk:
            error = an_object(chunk["error"])
            self.error = a_text(error.get("message")) or "an error without a text"
            return
        if not isinstance(chunk.get("choices"), list):
            self._problem("A chunk has no list of choices.")
        self._ids.add(a_text(chunk.get("id")))
        self._usage = an_object(chunk.get("usage")) or self._usage
        self._reef = an_object(chunk.get("reef")) or self._reef
        for choice in objects(chunk.get("choices")):
            self._choice(choice)

    def end(self, *, done: bool) -> Reply:
        """The whole reply; `done` says whether the stream's last line was `[DONE]`."""
        if len(self._ids) > 1 or "" in self._ids:
            self._problem("The chunks of one stream do not carry one id.")
        if len(self._reasons) != 1:
            self._problem(f"The stream has {len(self._reasons)} finish reasons instead of one.")
        if not done:
            self._problem("The stream does not end with [DONE].")
        calls = [ToolCall(call.id, call.name, "".join(call.pieces)) for _, call in sorted(self._calls.items())]
        reason = self._reasons[-1] if self._reasons else ""
        problems = [*self._problems, *(_judge_end(reason, calls) if self._reasons else ())]
        return _reply("".join(self._text), "".join(self._reasoning), calls, reason, self._usage, self._reef, problems)

    def _choice(self, choice: JSONObject) -> None:
        delta = an_object(choice.get("delta"))
        text, reasoning = a_text(delta.get("content")), a_text(delta.get("reasoning_content")) or a_text(delta.get("reasoning"))
        if self._reasons and (text or reasoning or delta.get("tool_calls")):
            self._problem("More of the reply came after its finish reason.")
        self._text.append(text)
        self._reasoning.append(reasoning)
        for piece in objects(delta.get("tool_calls")):
            self._call(piece)
        if a_text(choice.get("finish_reason")):
            self._reasons.append(a_text(choice.get("finish_reason")))

    def _call(self, piece: JSONObject) -> None:
        index = piece.get("index")
        if not isinstance(index, int) or isinstance(index, bool):
            self._problem("A tool-call piece has no index.")
            index = 0
        function = an_object(piece.get("function"))
        name, arguments = a_text(function.get("name")), function.get("arguments")
        if arguments is not None and not isinstance(arguments, str):
            self._problem("A tool-call piece has arguments that are not a text.")
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _Call(a_text(piece.get("id")), name)
            if not (call.id and name and piece.get("type") == "function"):
                self._problem("The first piece of a tool call lacks its id, its type or its name.")
        else:
            if name:
                self._problem("A later piece of a tool call repeats its name; clients would append it.")
            if a_text(piece.get("id")) not in ("", call.id):
                self._problem("A later piece of a tool call changes its id.")
        call.pieces.append(a_text(arguments))

    def _problem(self, sentence: str) -> None:
        if sentence not in self._problems:
            self._problems.append(sentence)


def _judge_end(reason: str, calls: Iterable[ToolCall]) -> list[str]:
    found = list(calls)
    problems: list[str] = []
    if reason not in _REASONS:
        problems.append(f"The finish reason is {shorten(reason, 40)!r}; clients know {', '.join(_REASONS)}.")
    elif found and reason not in ("tool_calls", "length"):
        problems.append(f"Tools were called, but the finish reason is {reason!r}, not 'tool_calls'.")
    elif not found and reason == "tool_calls":
        problems.append("The finish reason is 'tool_calls', but no tool was called.")
    if any(not call.name for call in found):
        problems.append("A tool call has no name.")
    if len({call.id for call in found}) < len(found):
        problems.append("Two tool calls carry one id.")
    return problems


def _reply(
    text: str,
    reasoning: str,
    calls: list[ToolCall],
    reason: str,
    usage: JSONObject,
    reef: JSONObject,
    problems: list[str],
) -> Reply:
    details: JSON = usage.get("prompt_tokens_details")
    return Reply(
        text,
        reasoning,
        tuple(calls),
        reason,
        prompt_tokens=a_count(usage.get("prompt_tokens")),
        cached_tokens=a_count(an_object(details).get("cached_tokens")),
        completion_tokens=a_count(usage.get("completion_tokens")),
        note=a_text(reef.get("note")),
        problems=tuple(dict.fromkeys(problems)),
    )

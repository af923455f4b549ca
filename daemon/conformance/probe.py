"""What the checks share: asking, and what was found out so far."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from jsonschema import Draft202012Validator

from daemon import json_text
from daemon.conformance.client import Client
from daemon.conformance.outcome import Failed, Weak, shorten
from daemon.conformance.replies import Reply, ToolCall
from daemon.conformance.shapes import a_text, an_object
from daemon.records import JSON, JSONObject, Message

_BUDGET_TOKENS = 256
_THINKING_BUDGET_TOKENS = 2048
_MARKERS = ("<tool_call>", "<function=", "[TOOL_CALLS]", "<|python_tag|>", "<|tool_call", "<tool_calls>", "<start_function_call>")
"""What models write around a call. In the text of a reply it means that nobody read the call."""


@dataclass(slots=True)
class Facts:
    """Found out by one check, used by later ones."""

    model: str = ""
    window_tokens: int = 0  # 0: not known
    forced_calls: bool = False  # whether a call can be forced
    reasons: bool = False  # whether the model thinks before it answers
    read_tokens_per_s: float = 0.0
    wires: frozenset[str] = frozenset()
    gave_up: str = ""  # why the rest was not tried
    last_call: ToolCall | None = None  # a call that the server made, to hand its result back


@dataclass(slots=True)
class Probe:
    """Asks for one check after another. All requests are greedy, so that they can be compared."""

    client: Client
    facts: Facts = field(default_factory=Facts)

    async def ask(self, messages: list[Message], also: JSONObject | None = None, *, stream: bool = False, **fields: JSON) -> Reply:
        """One reply that keeps to the protocol.

        Args:
            also, fields: further fields of the request; `max_tokens` has a default.

        Raises:
            Refused: an error status.
            Failed: the protocol was broken, or nothing came.
        """
        reply = await self.look(messages, also, stream=stream, **fields)
        if reply.problems:
            raise Failed(" ".join(reply.problems[:3]))
        return reply

    async def look(self, messages: list[Message], also: JSONObject | None = None, *, stream: bool = False, **fields: JSON) -> Reply:
        """As `ask`, but a reply that breaks the protocol is given back, with its `problems`."""
        body: JSONObject = {"model": self.facts.model, "messages": list(messages), "temperature": 0, "max_tokens": self.budget_tokens}
        body |= {**(also or {}), **fields}
        reply = await (self.client.streamed(body) if stream else self.client.whole(body))
        self.facts.reasons = self.facts.reasons or bool(reply.reasoning)
        return reply

    @property
    def budget_tokens(self) -> int:
        return _THINKING_BUDGET_TOKENS if self.facts.reasons else _BUDGET_TOKENS


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def valid_call(call: ToolCall, tools: list[JSONObject], *, forced: bool) -> JSONObject:
    """The arguments of a call, checked against the schema of its tool.

    Args:
        forced: the server holds the call to the schema; without that it is the model's doing.

    Raises:
        Failed: the arguments are no JSON object, or a forced call does not fit.
        Weak: the model named no such tool, or its arguments do not fit.
    """
    missed = Failed if forced else Weak
    schemas = {a_text(an_object(tool["function"]).get("name")): an_object(an_object(tool["function"]).get("parameters")) for tool in tools}
    if call.name not in schemas:
        raise missed(f"A tool was called that was not offered: {shorten(call.name, 60)}.")
    try:
        parsed = json_text.parse(call.arguments)
    except ValueError:
        raise Failed(f"The arguments of {call.name} are no JSON: {shorten(call.arguments, 80)!r}.") from None
    if not isinstance(parsed, dict):
        raise Failed(f"The arguments of {call.name} are no JSON object: {shorten(call.arguments, 80)!r}.")
    for error in Draft202012Validator(schemas[call.name]).iter_errors(parsed):
        raise missed(f"The arguments of {call.name} do not fit its schema at {error.json_path}: {shorten(call.arguments, 80)}.")
    return parsed


def no_call(reply: Reply, tools: list[JSONObject]) -> Weak | Failed:
    """Why a reply holds no call: the model made none, or the server did not read the one that it made."""
    if reply.note:
        return Weak(f"The model wrote a call that could not be read: {shorten(reply.note)}")
    names = [json.dumps(an_object(tool["function"]).get("name")) for tool in tools]
    marker = next((marker for marker in _MARKERS if marker in reply.text), "")
    if marker and any(name.strip('"') in reply.text for name in names) and reply.finish_reason != "length":
        return Failed(f"The server does not read this model's tool calls: {shorten(reply.text, 100)!r} came as text.")
    if reply.finish_reason == "length":
        where = "while it was thinking" if reply.reasoning and not reply.text else "and had called no tool"
        return Weak(f"The model was cut off after {reply.completion_tokens} tokens {where}.")
    return Weak(f"The model called no tool; it said {shorten(reply.text, 80)!r}.")

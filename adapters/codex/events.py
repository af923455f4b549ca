"""What one headless run of codex says on stdout under `exec --json`: one event a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.shared.events import events, integer, string
from adapters.shared.objects import as_object


@dataclass(frozen=True, slots=True)
class Outcome:
    reply: str  # the last message of the agent
    session: str  # codex's own id of it
    error: str  # empty: the task ended by itself
    input_tokens: int
    output_tokens: int


def read_events(lines: Iterable[str]) -> Outcome:
    """Read the events of one task. Lines that are no JSON object are skipped."""
    reply, session, error, over = "", "", "", False
    input_tokens = output_tokens = 0
    for event in events(lines):
        kind, item = event.get("type"), as_object(event.get("item"))
        if kind == "thread.started":
            session = string(event.get("thread_id"))
        elif kind == "item.completed" and item.get("type") == "agent_message":
            reply = string(item.get("text")) or reply
        elif kind == "turn.failed":
            error, over = string(as_object(event.get("error")).get("message")) or "codex failed.", True
        elif kind == "turn.completed":
            error, over = "", True
            usage = as_object(event.get("usage"))
            input_tokens += integer(usage.get("input_tokens"))
            output_tokens += integer(usage.get("output_tokens"))
    if not over:
        error = "codex stopped before the task was over."
    return Outcome(reply, session, error, input_tokens, output_tokens)

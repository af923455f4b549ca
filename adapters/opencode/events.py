"""What one headless run of opencode says on stdout under `--format json`: one event a line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.shared.events import events, integer, string
from daemon.records import JSON


@dataclass(frozen=True, slots=True)
class Outcome:
    reply: str  # the last text
    session: str  # opencode's own id
    error: str  # empty: the task ended by itself
    input_tokens: int
    output_tokens: int


def read_events(lines: Iterable[str]) -> Outcome:
    """Read the events of one task. Lines that are no JSON object are skipped."""
    reply, session, error, finished = "", "", "", ""
    input_tokens = output_tokens = 0
    for event in events(lines):
        session = string(event.get("sessionID")) or session
        part = event.get("part")
        kind = event.get("type")
        if kind == "error":
            error = _error(event.get("error"))
        elif isinstance(part, dict) and kind == "text":
            reply = string(part.get("text")) or reply
        elif isinstance(part, dict) and kind == "step_finish":
            finished = string(part.get("reason"))
            tokens = part.get("tokens")
            if isinstance(tokens, dict):
                cache = tokens.get("cache")
                input_tokens += integer(tokens.get("input")) + (integer(cache.get("read")) if isinstance(cache, dict) else 0)
                output_tokens += integer(tokens.get("output"))
    if not error and finished in ("", "tool-calls"):
        error = "opencode stopped before the task was over."
    return Outcome(reply, session, error, input_tokens, output_tokens)


def _error(value: JSON) -> str:
    """Its message, with what stands behind it."""
    if not isinstance(value, dict):
        return "The task failed."
    data = value.get("data")
    message = string(data.get("message")) if isinstance(data, dict) else ""
    return message or string(value.get("name")) or "The task failed."

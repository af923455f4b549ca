"""What one headless run of pi says on stdout under `--mode json`: one event a line.

The exit code is 0 even when the model could not be reached, so the events decide.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.shared.events import content_text, events, integer, string


@dataclass(frozen=True, slots=True)
class Outcome:
    reply: str  # the last assistant text
    response_ids: tuple[str, ...]  # as pi kept them, one a model call
    error: str  # empty: the task ended by itself
    input_tokens: int
    output_tokens: int


def read_events(lines: Iterable[str]) -> Outcome:
    """Read the events of one task. Lines that are no JSON object (warnings) are skipped."""
    reply, error, settled = "", "", False
    response_ids: list[str] = []
    input_tokens = output_tokens = 0
    for event in events(lines):
        message = event.get("message")
        if event.get("type") == "message_end" and isinstance(message, dict) and message.get("role") == "assistant":
            reply = content_text(message.get("content")) or reply
            error = string(message.get("errorMessage")) if message.get("stopReason") in ("error", "aborted") else ""
            if response_id := string(message.get("responseId")):
                response_ids.append(response_id)
            usage = message.get("usage")
            if isinstance(usage, dict):
                input_tokens += integer(usage.get("input")) + integer(usage.get("cacheRead"))
                output_tokens += integer(usage.get("output"))
        elif event.get("type") == "agent_settled":
            settled = True
            if event.get("aborted") is True:
                error = error or "The task was aborted."
    if not settled and not error:
        error = "pi stopped before the task was over."
    return Outcome(reply, tuple(response_ids), error, input_tokens, output_tokens)

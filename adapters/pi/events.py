"""What one headless run of pi says on stdout under `--mode json`: one event a line.

The exit code is 0 even when the model could not be reached, so the events decide.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from daemon.records import JSON, JSONObject


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
    for line in lines:
        event = _parse(line)
        message = event.get("message")
        if event.get("type") == "message_end" and isinstance(message, dict) and message.get("role") == "assistant":
            reply = _text(message.get("content")) or reply
            error = _string(message.get("errorMessage")) if message.get("stopReason") in ("error", "aborted") else ""
            if response_id := _string(message.get("responseId")):
                response_ids.append(response_id)
            usage = message.get("usage")
            if isinstance(usage, dict):
                input_tokens += _integer(usage.get("input")) + _integer(usage.get("cacheRead"))
                output_tokens += _integer(usage.get("output"))
        elif event.get("type") == "agent_settled":
            settled = True
            if event.get("aborted") is True:
                error = error or "The task was aborted."
    if not settled and not error:
        error = "pi stopped before the task was over."
    return Outcome(reply, tuple(response_ids), error, input_tokens, output_tokens)


def _parse(line: str) -> JSONObject:
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _text(content: JSON) -> str:
    parts = content if isinstance(content, list) else []
    return "".join(_string(part.get("text")) for part in parts if isinstance(part, dict) and part.get("type") == "text")


def _string(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _integer(value: JSON) -> int:
    return value if isinstance(value, int) else 0

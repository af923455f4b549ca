"""What one headless run of Claude Code says on stdout under `--output-format stream-json`: one event a line, `result` the last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from adapters.shared.events import content_text, events, integer, string
from adapters.shared.objects import as_object
from daemon.records import JSONObject


@dataclass(frozen=True, slots=True)
class Outcome:
    reply: str  # the last answer
    response_ids: tuple[str, ...]  # as Claude Code kept them, one a model call
    error: str  # empty: the task ended by itself
    input_tokens: int
    output_tokens: int
    denied: tuple[str, ...] = ()  # tools that the settings did not let run


def read_events(lines: Iterable[str]) -> Outcome:
    """Read the events of one task. Lines that are no JSON object (warnings) are skipped."""
    reply = ""
    result: JSONObject = {}
    response_ids: dict[str, None] = {}
    for event in events(lines):
        message = as_object(event.get("message"))
        if event.get("type") == "assistant" and event.get("parent_tool_use_id") is None:
            response = string(message.get("id"))
            if response.startswith("msg_"):
                response_ids[response] = None
            reply = content_text(message.get("content")) or reply
        elif event.get("type") == "result":
            result = event
    usage = as_object(result.get("usage"))
    read = sum(integer(usage.get(name)) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"))
    denials = result.get("permission_denials")
    denied = [string(as_object(one).get("tool_name")) for one in denials] if isinstance(denials, list) else []
    said = string(result.get("result"))
    error = _error(result, said)
    return Outcome(reply if error else said or reply, tuple(response_ids), error, read, integer(usage.get("output_tokens")), tuple(denied))


def _error(result: JSONObject, said: str) -> str:
    if not result:
        return "Claude Code stopped before the task was over."
    if result.get("is_error") is not True and result.get("subtype") == "success":
        return ""
    return said or string(result.get("subtype")) or "The task failed."

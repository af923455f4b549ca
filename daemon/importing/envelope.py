"""Record envelopes: what `POST /reef/records` takes, and what a file of records holds on each line.

An inference whose payload holds a conversation and its reply becomes a record like those that were served here, a report becomes
feedback on it. Whatever else an envelope holds is kept as it came.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from daemon.errors import DataError
from daemon.importing.messages import check_message, text_of
from daemon.importing.openai_chat import checked, replies, usage_of
from daemon.records import JSON, JSONObject, Message, Usage

INFERENCE, REPORT = "inference", "report"
_MAX_CHARACTERS = 200
# Fields of an inference that are no fields of the request that was sent.
_OURS = frozenset(
    {
        "agent_record_id",
        "receipt",
        "scenario",
        "session",
        "sequence",
        "created_at",
        "created",
        "release_id",
        "lora",
        "model",
        "wire",
        "kind",
        "status",
        "finish_reason",
        "error",
        "note",
        "cache_miss",
        "messages",
        "effective_messages",
        "reply",
        "response",
        "usage",
        "tags",
        "first_token_ms",
        "total_ms",
        "redactions",
        "has_tokens",
        "tokens",
        "request",
        "signals",
        "reports",
        "lineage",
        "step",
        "follows",
        "added",
        "parent",
    }
)


@dataclass(frozen=True, slots=True)
class Envelope:
    id: str
    request_type: str
    payload: JSONObject


@dataclass(frozen=True, slots=True)
class Said:
    """What an inference's payload says."""

    messages: tuple[Message, ...]
    reply: Message
    finish_reason: str
    session: str
    created_at: float | None
    model: str
    usage: Usage
    request: JSONObject
    tags: dict[str, str]


@dataclass(frozen=True, slots=True)
class Judged:
    """What a report's payload says."""

    references: tuple[str, ...]
    score: float | None
    feedback: str | JSONObject | None
    metadata: JSONObject


def is_envelope(value: JSONObject) -> bool:
    return {"agent_record_id", "request_type", "payload"} <= value.keys()


def envelope_of(value: JSONObject) -> Envelope:
    """Raises `DataError` that names the field."""
    payload = value.get("payload")
    if not isinstance(payload, dict):
        raise DataError("'payload' is no object.")
    texts = []
    for name in ("agent_record_id", "request_type"):
        text = value.get(name)
        if not isinstance(text, str) or not 1 <= len(text) <= _MAX_CHARACTERS:
            raise DataError(f"'{name}' is no text of 1 to {_MAX_CHARACTERS} characters.")
        texts.append(text)
    return Envelope(texts[0], texts[1], payload)


def said(payload: JSONObject) -> Said | None:
    """The conversation and the reply of an inference; None: it holds none that can be read."""
    try:
        messages = checked(payload.get("messages"))
        reply, reason = _reply(payload)
    except DataError:
        return None
    response = payload.get("response")
    answered: JSONObject = response if isinstance(response, dict) else {}
    inner, tags = payload.get("request"), payload.get("tags")
    request: JSONObject = {name: value for name, value in payload.items() if name not in _OURS}
    if isinstance(inner, dict):
        request |= {name: value for name, value in inner.items() if name != "messages"}
    return Said(
        messages=messages,
        reply=reply,
        finish_reason=_text(payload.get("finish_reason")) or reason,
        session=_text(payload.get("session")),
        created_at=_time(payload.get("created_at", payload.get("created", answered.get("created")))),
        model=_text(payload.get("model")) or _text(answered.get("model")),
        usage=usage_of(payload.get("usage") or answered.get("usage")),
        request=request,
        tags={name[:80]: value[:256] for name, value in tags.items() if isinstance(value, str)} if isinstance(tags, dict) else {},
    )


def judged(payload: JSONObject) -> Judged | None:
    """What a report says; None: it is none that can be read."""
    references, score, feedback, metadata = (payload.get(name) for name in ("references", "score", "feedback", "metadata"))
    receipts = [references] if isinstance(references, str) else [] if references is None else references
    if not isinstance(receipts, list) or not all(isinstance(receipt, str) for receipt in receipts):
        return None
    if score is not None and (isinstance(score, bool) or not isinstance(score, int | float) or not _is_finite(score)):
        return None
    if not isinstance(feedback, str | dict | None) or not isinstance(metadata, dict | None) or (score is None and not feedback):
        return None
    number = None if score is None else float(score)
    return Judged(tuple(str(receipt) for receipt in receipts if receipt), number, feedback or None, metadata or {})


def _reply(payload: JSONObject) -> tuple[Message, str]:
    reply, response = payload.get("reply"), payload.get("response")
    if isinstance(reply, dict):
        return _assistant(reply), ""
    if isinstance(response, dict) and "choices" in response:
        return replies(response)[0]
    if isinstance(response, dict):
        return _assistant(response), ""
    if isinstance(response, str):
        return {"role": "assistant", "content": response}, ""
    raise DataError("There is no reply.")


def _assistant(value: JSONObject) -> Message:
    message = check_message({"role": "assistant", **value})
    if message["role"] != "assistant" or not (text_of(message["content"]) or message.get("tool_calls") or message.get("reasoning_content")):
        raise DataError("There is no reply.")
    return message


def _text(value: JSON) -> str:
    return value[:_MAX_CHARACTERS] if isinstance(value, str) else ""


def _time(value: JSON) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < 1e11 else None


def _is_finite(value: int | float) -> bool:
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False

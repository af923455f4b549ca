"""Imported sessions as JSON: how they travel to the daemon, which checks everything again."""

from __future__ import annotations

import math
from collections.abc import Sequence

from daemon.errors import DataError
from daemon.importing.conversation import MAX_MESSAGES, MAX_TURNS, ImportedSession, ImportedTurn, named
from daemon.importing.messages import check_message
from daemon.importing.openai_chat import usage_of
from daemon.records import JSON, JSONObject, Message

_MAX_ID_CHARACTERS = 200
_MAX_TAGS = 32
_REPEATED_MESSAGES = 4_000_000
"""Messages of all turns of what is sent at once, each turn with its whole history: as many as one session can have."""


def to_json(session: ImportedSession) -> JSONObject:
    turns: list[JSON] = []
    for turn in session.turns:
        fields: JSONObject = {
            "added": list(turn.added),
            "reply": turn.reply,
            "parent": turn.parent,
            "id": turn.id,
            "created_at": turn.created_at,
            "model": turn.model,
            "finish_reason": turn.finish_reason,
            "score": turn.score,
            "feedback": turn.feedback,
        }
        usage = turn.usage
        if usage.prompt_tokens or usage.completion_tokens:
            fields["usage"] = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": usage.cached_tokens,
            }
        turns.append({name: value for name, value in fields.items() if value not in (None, "")})
    return {"id": session.id, "tools": list(session.tools), "tags": dict(session.tags), "turns": turns}


def sessions_from_json(values: Sequence[JSON]) -> list[ImportedSession]:
    """What one request brings. Raises `DataError` that names the field, or says that it is too much at once."""
    sessions, messages = [], 0
    for index, value in enumerate(values):
        session = from_json(value, f"sessions[{index}]")
        lengths: list[int] = []
        for turn in session.turns:
            lengths.append(len(turn.added) + (0 if turn.parent is None else lengths[turn.parent] + 1))
        messages += sum(lengths)
        if messages > _REPEATED_MESSAGES:
            raise DataError("The sessions repeat more messages, turn by turn, than are taken at once.", "Send fewer at a time.")
        sessions.append(named(session))
    return sessions


def from_json(value: JSON, where: str) -> ImportedSession:
    """Raises `DataError` that names the field, `where` before it."""
    if not isinstance(value, dict):
        raise DataError(f"'{where}' is not an object.")
    given = value.get("turns")
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_TURNS:
        raise DataError(f"'{where}.turns' must be an array of 1 to {MAX_TURNS:,} turns.")
    tools, tags = value.get("tools") or [], value.get("tags") or {}
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise DataError(f"'{where}.tools' must be an array of objects.")
    if not isinstance(tags, dict) or len(tags) > _MAX_TAGS or not all(isinstance(tag, str) for tag in tags.values()):
        raise DataError(f"'{where}.tags' must be an object of at most {_MAX_TAGS} texts.")
    turns: list[ImportedTurn] = []
    lengths: list[int] = []
    for number, one in enumerate(given):
        turn = _turn(one, f"{where}.turns[{number}]", number)
        turns.append(turn)
        lengths.append(len(turn.added) + (0 if turn.parent is None else lengths[turn.parent] + 1))
    if max(lengths) > MAX_MESSAGES:
        raise DataError(f"'{where}' is longer than the {MAX_MESSAGES:,} messages that are taken.")
    return ImportedSession(
        tuple(turns),
        _text(value.get("id"), f"{where}.id"),
        tuple(tool for tool in tools if isinstance(tool, dict)),
        {name[:80]: str(text)[:256] for name, text in tags.items()},
    )


def _turn(value: JSON, where: str, number: int) -> ImportedTurn:
    if not isinstance(value, dict):
        raise DataError(f"'{where}' is not an object.")
    added, parent, score, feedback = (value.get(name) for name in ("added", "parent", "score", "feedback"))
    if not isinstance(added, list):
        raise DataError(f"'{where}.added' must be an array of messages.")
    if parent is not None and (isinstance(parent, bool) or not isinstance(parent, int) or not 0 <= parent < number):
        raise DataError(f"'{where}.parent' must be the place of an earlier turn.")
    if not isinstance(feedback, str | dict | None):
        raise DataError(f"'{where}.feedback' must be a text or an object.")
    reply = _message(value.get("reply"), f"{where}.reply")
    if reply["role"] != "assistant":
        raise DataError(f"'{where}.reply' is not the assistant's.")
    return ImportedTurn(
        tuple(_message(message, f"{where}.added") for message in added),
        reply,
        parent,
        id=_text(value.get("id"), f"{where}.id"),
        created_at=_number(value.get("created_at"), f"{where}.created_at", 1e11),
        model=_text(value.get("model"), f"{where}.model"),
        finish_reason=_text(value.get("finish_reason"), f"{where}.finish_reason"),
        usage=usage_of(value.get("usage")),
        score=_number(score, f"{where}.score", 1e300),
        feedback=feedback or None,
    )


def _message(value: JSON, where: str) -> Message:
    try:
        return check_message(value)
    except DataError as error:
        raise DataError(f"'{where}': {error.message}") from error


def _text(value: JSON, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str) or len(value) > _MAX_ID_CHARACTERS:
        raise DataError(f"'{where}' must be a text of at most {_MAX_ID_CHARACTERS} characters.")
    return value


def _number(value: JSON, where: str, most: float) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most or not math.isfinite(value):
        raise DataError(f"'{where}' must be a number.")
    return float(value)

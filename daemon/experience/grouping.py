"""Which session a request belongs to: by what the client sends, by tool-call ids that we issued, by the longest known prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from daemon import json_text
from daemon.experience.keys import text_of
from daemon.experience.packing import digest
from daemon.records import JSON, JSONObject, Message, TurnKind

_HEADERS = (
    "x-reef-tag-session",
    "x-reef-session",
    "x-claude-code-session-id",
    "x-session-id",
    "session-id",
    "session_id",
    "x-session-affinity",
    "thread-id",
)
_MAX_ID_CHARACTERS = 200

# What the system texts of title and summary requests say (opencode, Claude Code, pi), and of commit messages (aider).
_TITLE_OR_SUMMARY = re.compile(
    r"title generator|naming a coding session|generate a (?:brief |short |concise )?title|context summarization assistant", re.I
)
_COMMIT = re.compile(r"generates? (?:concise, )?(?:one-line )?git commit messages", re.I)


@dataclass(frozen=True, slots=True)
class SessionMatch:
    session: str
    is_new: bool
    retry_of: str | None = None  # the receipt of the same request, sent before in this session
    kind: TurnKind = TurnKind.TURN


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What is remembered of a session to tell its turns from its asides."""

    system: bytes  # of its latest turn
    tools: bool


def identify(headers: Mapping[str, str], body: JSONObject) -> str | None:
    """The session id that the client itself sends, or None. Header names in `headers` are lower case."""
    for name in _HEADERS:
        if value := headers.get(name, "").strip():
            return _bounded(value)
    if value := _text(body.get("prompt_cache_key")):
        return _bounded(value)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and (user := _text(metadata.get("user_id"))):
        return _session_of_user(user)
    return None


def tool_call_ids(messages: Sequence[Message]) -> list[str]:
    """Ids of tool calls that come back, newest first."""
    return [found for message in reversed(messages) if message.get("role") == "tool" and (found := _text(message.get("tool_call_id")))]


def issued_call_ids(reply: Message) -> list[str]:
    calls = reply.get("tool_calls")
    if not isinstance(calls, list):
        return []
    return [found for call in calls if isinstance(call, dict) and (found := _text(call.get("id")))]


def system_text(messages: Sequence[Message]) -> str:
    """The leading system messages' text."""
    texts = []
    for message in messages:
        if message.get("role") not in ("system", "developer"):
            break
        texts.append(text_of(message.get("content")))
    return "\n".join(texts)


def facts_of(messages: Sequence[Message], request: JSONObject) -> SessionFacts:
    return SessionFacts(digest(system_text(messages).encode("utf-8", "surrogatepass")), _has_tools(request))


def turn_kind(messages: Sequence[Message], request: JSONObject, known: SessionFacts | None, *, explicit: bool) -> TurnKind:
    """Whether a request is a turn, or only about its session (a title, a summary, a commit message).

    An aside has no tools and a system text of its own. In doubt it is a turn: a plain program whose system text
    asks for commit messages has no session with other turns, so what it sends counts.
    """
    if _has_tools(request):
        return TurnKind.TURN
    system = system_text(messages)
    if not system:
        return TurnKind.TURN
    differs = known is not None and known.system != digest(system.encode("utf-8", "surrogatepass"))
    if differs and known is not None and known.tools:
        return TurnKind.ASIDE
    if _TITLE_OR_SUMMARY.search(system) and not any(message.get("role") == "assistant" for message in messages):
        return TurnKind.ASIDE if explicit or known is not None or "summarization" in system else TurnKind.TURN
    return TurnKind.ASIDE if differs and _COMMIT.search(system) else TurnKind.TURN


def _has_tools(request: JSONObject) -> bool:
    return bool(request.get("tools"))


def _session_of_user(user: str) -> str | None:
    """Claude Code sends JSON text with a `session_id`; other values name a user, not a session."""
    try:
        parsed = json_text.parse(user)
    except ValueError:
        return None
    found = _text(parsed.get("session_id")) if isinstance(parsed, dict) else ""
    return _bounded(found) if found else None


def _bounded(value: str) -> str:
    value = value.encode("utf-8", "replace").decode()
    return value if len(value) <= _MAX_ID_CHARACTERS else f"{value[:64]}~{digest(value.encode()).hex()}"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

"""Which session a request belongs to: by what the client sends, by tool-call ids that we issued, by the longest known prefix."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import lru_cache

from daemon import json_text
from daemon.experience.packing import digest
from daemon.experience.sessions.keys import text_of
from daemon.frozen import dataclass
from daemon.records import JSON, JSONObject, Lineage, Message, TurnKind
from daemon.redaction.redactor import Redactor

_OF_REEF = ("x-reef-tag-session", "x-reef-session")
_HEADERS = (
    *_OF_REEF,
    "x-claude-code-session-id",
    "x-session-id",
    "session-id",
    "session_id",
    "x-session-affinity",
    "thread-id",
)
_ANY_HEADER = frozenset(_HEADERS)
_MAX_ID_CHARACTERS = 200
_SECRETS = Redactor()

# What the system texts of title and summary requests say (opencode, Claude Code, pi), and of commit messages (aider).
# All in lower case; a title's name comes with words between, so it is a pattern, tried where its last word occurs.
_TITLE_OR_SUMMARY = (
    "title generator",
    "naming a coding session",
    "context summarization assistant",
    "tasked with summarizing conversations",
)
_TITLE = re.compile(r"generate a (?:brief |short |concise )?title")
_COMMIT = re.compile(r"generates? (?:concise, )?(?:one-line )?git commit messages")
# What the last message of a summary request says where the conversation itself is sent along (Claude Code, codex, opencode).
_SUMMARY_ASKED = (
    "your task is to create a detailed summary of the conversation",
    "your task is to create a detailed summary of this conversation",
    "performing a context checkpoint compaction",
    "create a new anchored summary from the conversation history",
)
# What a conversation begins with whose earlier part is a summary (Claude Code, pi, codex, opencode).
_COMPACTED = (
    "session is being continued from a previous conversation",
    "conversation history before this point was compacted",
    "another language model started to solve this problem and produced a summary",
    "what did we do so far?",
)
_TITLE_THREAD = "thread_title"
_BEFORE_WHAT_A_TITLE_IS_FOR = "User prompt:\n"
_SYSTEM_CHARACTERS = 20_000  # of a system text, in which an aside's is looked for
_SYSTEM_TEXTS = 32  # an agent sends the same one with every request
_BEGINNING_MESSAGES = 4  # among which a summary is looked for, and how much of each
_BEGINNING_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class SessionMatch:
    session: str
    is_new: bool
    kind: TurnKind = TurnKind.TURN
    lineage: Lineage = field(default_factory=Lineage)


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What is remembered of a session to tell its turns from its asides."""

    system: int  # a hash of its latest turn's; for this process
    tools: bool


def identify(headers: Mapping[str, str], body: JSONObject) -> str | None:
    """The session id that the client itself sends, or None. Header names in `headers` are lower case."""
    names = _OF_REEF if is_title_thread(body) else _HEADERS
    if not _ANY_HEADER.isdisjoint(headers):
        for name in names:
            if value := headers.get(name, "").strip():
                return session_id(value)
    if names is _OF_REEF:
        return None
    if value := _text(body.get("prompt_cache_key")):
        return session_id(value)
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and (user := _text(metadata.get("user_id"))):
        return _session_of_user(user)
    return None


def is_title_thread(request: JSONObject) -> bool:
    """Whether codex asks for a title: it does so in a thread of its own, whose id is nobody's session."""
    metadata = request.get("client_metadata")
    told = metadata.get("x-codex-turn-metadata") if isinstance(metadata, dict) else None
    if not isinstance(told, str) or _TITLE_THREAD not in told:
        return False
    try:
        parsed = json_text.parse(told)
    except ValueError:
        return False
    return isinstance(parsed, dict) and parsed.get("thread_source") == _TITLE_THREAD


def titled(messages: Sequence[Message]) -> str:
    """The user's words for which codex asks for a title; empty: none are quoted."""
    return text_of(messages[-1].get("content")).partition(_BEFORE_WHAT_A_TITLE_IS_FOR)[2] if messages else ""


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
    return SessionFacts(hash(system_text(messages)), _has_tools(request))


def turn_kind(messages: Sequence[Message], request: JSONObject, known: SessionFacts | None, *, explicit: bool) -> TurnKind:
    """Whether a request is a turn, or only about its session (a title, a summary, a commit message).

    An aside has no tools and a system text of its own, or asks at its end for a summary of the whole. In doubt it is a
    turn: a plain program whose system text asks for commit messages has no session with other turns, so what it sends counts.
    """
    if is_title_thread(request):
        return TurnKind.ASIDE
    if (explicit or known is not None) and asks_for_summary(messages):
        return TurnKind.ASIDE
    if not may_be_aside(messages, request):
        return TurnKind.TURN
    system = system_text(messages)
    differs = known is not None and known.system != hash(system)
    if differs and known is not None and known.tools:
        return TurnKind.ASIDE
    if _is_title_or_summary(system) and not any(message.get("role") == "assistant" for message in messages):
        return TurnKind.ASIDE if explicit or known is not None or "summarization" in system else TurnKind.TURN
    return TurnKind.ASIDE if differs and _is_commit(system) else TurnKind.TURN


def may_be_aside(messages: Sequence[Message], request: JSONObject) -> bool:
    """Whether it has no tools, and a system text."""
    return not _has_tools(request) and bool(system_text(messages))


def names_an_aside(messages: Sequence[Message]) -> bool:
    """Whether the system text is that of a title, a summary or a commit message, as the agents that we know write them."""
    system = system_text(messages)
    return _is_title_or_summary(system) or _is_commit(system)


def asks_for_summary(messages: Sequence[Message]) -> bool:
    """Whether the last message asks for a summary of the conversation before it."""
    last = messages[-1] if messages else {}
    if last.get("role") != "user":
        return False
    text = text_of(last.get("content"))
    ends = (
        text.lower()
        if len(text) <= 2 * _BEGINNING_CHARACTERS
        else f"{text[:_BEGINNING_CHARACTERS]}\n{text[-_BEGINNING_CHARACTERS:]}".lower()
    )
    return any(phrase in ends for phrase in _SUMMARY_ASKED)


def is_summary(messages: Sequence[Message]) -> bool:
    """Whether an aside is about a summary of its session."""
    return asks_for_summary(messages) or "summari" in system_text(messages).lower()


def beginning(messages: Sequence[Message]) -> list[str]:
    """The texts of the first messages after the system's, where a summary of what came before would stand."""
    first = next((place for place, message in enumerate(messages) if message.get("role") not in ("system", "developer")), 0)
    return [text_of(message.get("content")) for message in messages[first : first + _BEGINNING_MESSAGES]]


def begins_with_summary(texts: Sequence[str]) -> bool:
    return any(phrase in text for text in (text[:_BEGINNING_CHARACTERS].lower() for text in texts) for phrase in _COMPACTED)


@lru_cache(maxsize=_SYSTEM_TEXTS)
def _is_title_or_summary(system: str) -> bool:
    system = system[:_SYSTEM_CHARACTERS].lower()
    return any(phrase in system for phrase in _TITLE_OR_SUMMARY) or (" title" in system and bool(_TITLE.search(system)))


@lru_cache(maxsize=_SYSTEM_TEXTS)
def _is_commit(system: str) -> bool:
    system = system[:_SYSTEM_CHARACTERS].lower()
    return "git commit messages" in system and bool(_COMMIT.search(system))


def _has_tools(request: JSONObject) -> bool:
    return bool(request.get("tools"))


def _session_of_user(user: str) -> str | None:
    """Claude Code sends JSON text with a `session_id`; other values name a user, not a session."""
    try:
        parsed = json_text.parse(user)
    except ValueError:
        return None
    found = _text(parsed.get("session_id")) if isinstance(parsed, dict) else ""
    return session_id(found) if found else None


def session_id(value: str) -> str:
    """An id that can be stored and shown; of one that is a key or a token only the hash."""
    value = value.encode("utf-8", "replace").decode()
    if _SECRETS.text(value)[1]:
        return f"secret~{digest(value.encode()).hex()}"
    return value if len(value) <= _MAX_ID_CHARACTERS else f"{value[:64]}~{digest(value.encode()).hex()}"


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""

"""The grouping's memory: fed with every record, so that a request is placed without a query."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from daemon.experience.grouping import SessionFacts, SessionMatch, facts_of, issued_call_ids, tool_call_ids, turn_kind
from daemon.experience.keys import conversation_keys, reply_key
from daemon.records import Inference, JSONObject, Message, Status, TurnKind, new_id

RETRY_WINDOW_S = 60.0
"""Without a session id, the same first request is a retry only if the earlier one failed this recently."""
CAPACITY = 100_000
_AMBIGUOUS = ""

K = TypeVar("K")
V = TypeVar("V")


class _Bounded(OrderedDict[K, V], Generic[K, V]):
    """Drops what was put in first; `full` once it has dropped anything."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.full = False

    def put(self, key: K, value: V) -> None:
        self[key] = value
        self.move_to_end(key)
        if len(self) > self.capacity:
            self.popitem(last=False)
            self.full = True


@dataclass(frozen=True, slots=True)
class _Asked:
    session: str
    receipt: str
    failed: bool
    at: float


class SessionIndex:
    """Thread-safe. Holds keys, not texts: about 30 MB when full."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._lock = threading.Lock()
        self._replies = _Bounded[tuple[str, bytes], str](capacity)
        self._calls = _Bounded[tuple[str, str], str](capacity)
        self._prompts = _Bounded[tuple[str, str, bytes], _Asked](capacity)
        self._first = _Bounded[tuple[str, bytes], _Asked](capacity)
        self._sessions = _Bounded[tuple[str, str], SessionFacts | None](capacity)
        self.complete = True  # False: older sessions lie only in the database

    def add(self, inference: Inference) -> bytes:
        """Remember a record; returns its reply key, which the database keeps."""
        keys = conversation_keys(inference.messages)
        key = reply_key(keys, inference.reply)
        scenario, session = inference.scenario, inference.session
        facts = facts_of(inference.messages, inference.request)
        with self._lock:
            if inference.status is not Status.ERROR:
                self._replies.put((scenario, key), session)
            for call in issued_call_ids(inference.reply):
                other = self._calls.get((scenario, call), session)
                self._calls.put((scenario, call), session if other == session else _AMBIGUOUS)
            if keys:
                asked = _Asked(session, inference.id, inference.status is not Status.OK, inference.created_at)
                self._prompts.put((scenario, session, keys[-1]), asked)
                self._first.put((scenario, keys[-1]), asked)
            if inference.kind is TurnKind.TURN or (scenario, session) not in self._sessions:
                self._sessions.put((scenario, session), facts if inference.kind is TurnKind.TURN else None)
            self._note_overflow()
        return key

    def warm(self, scenario: str, session: str, key: bytes) -> None:
        """Remember a stored reply, at start."""
        with self._lock:
            self._replies.put((scenario, key), session)
            if (scenario, session) not in self._sessions:
                self._sessions.put((scenario, session), None)
            self._note_overflow()

    def knows(self, scenario: str, session: str) -> bool:
        with self._lock:
            return (scenario, session) in self._sessions

    def find(self, scenario: str, messages: Sequence[Message], keys: Sequence[bytes]) -> str | None:
        """The session of a request that names none: by our tool-call ids, then by its longest prefix that ends in our reply."""
        with self._lock:
            for call in tool_call_ids(messages):
                if session := self._calls.get((scenario, call)):
                    return session
            for message, key in zip(reversed(messages), reversed(keys), strict=True):
                if message.get("role") == "assistant" and (session := self._replies.get((scenario, key))):
                    return session
        return None

    def match(
        self,
        scenario: str,
        session: str | None,
        messages: Sequence[Message],
        keys: Sequence[bytes],
        request: JSONObject,
        *,
        explicit: bool,
        now: float,
    ) -> SessionMatch:
        """The decision, once a session is known or known to be new (`session` None)."""
        with self._lock:
            if session is None and keys:
                asked = self._first.get((scenario, keys[-1]))
                if asked is not None and asked.failed and 0 <= now - asked.at <= RETRY_WINDOW_S:
                    session = asked.session
            if session is None:
                return SessionMatch(new_id("ses"), True, None, turn_kind(messages, request, None, explicit=False))
            known = self._sessions.get((scenario, session))
            earlier = self._prompts.get((scenario, session, keys[-1])) if keys else None
            is_new = (scenario, session) not in self._sessions
        kind = turn_kind(messages, request, known, explicit=explicit)
        return SessionMatch(session, is_new, earlier.receipt if earlier else None, kind)

    def _note_overflow(self) -> None:
        if self._replies.full or self._sessions.full:
            self.complete = False

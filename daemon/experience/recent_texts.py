"""What was said lately, to find the session of requests for a title, a summary or a commit message that name none.

Such a request quotes the conversation that it is about. Only the beginnings of the last few hundred turns are held.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.experience.keys import text_of
from daemon.records import Message

CAPACITY = 256
ADOPTION_S = 120.0
"""How long a title's request that came before its conversation waits for it."""
_CHARACTERS = 80
_SHORTEST_QUESTION = 8
_SHORTEST_REPLY = 16
_LONGEST_SCAN = 400_000


@dataclass(frozen=True, slots=True)
class _Turn:
    scenario: str
    session: str
    question: str
    reply: str


@dataclass(frozen=True, slots=True)
class _Orphan:
    scenario: str
    session: str
    text: str
    at: float


class RecentTexts:
    """Thread-safe."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._lock = threading.Lock()
        self._turns: deque[_Turn] = deque(maxlen=capacity)
        self._orphans: deque[_Orphan] = deque(maxlen=32)

    def note_turn(self, scenario: str, session: str, messages: Sequence[Message], reply: Message) -> None:
        turn = _Turn(scenario, session, _question(messages), _start(text_of(reply.get("content"))))
        with self._lock:
            self._turns.append(turn)

    def note_orphan(self, scenario: str, session: str, messages: Sequence[Message], at: float) -> None:
        """An aside of which no turn is known yet."""
        with self._lock:
            self._orphans.append(_Orphan(scenario, session, _all_text(messages), at))

    def owner(self, scenario: str, messages: Sequence[Message]) -> str | None:
        """The session that an aside quotes: by a reply, else by a question; the newest first."""
        text = _all_text(messages)
        with self._lock:
            turns = [turn for turn in reversed(self._turns) if turn.scenario == scenario]
        for turn in turns:
            if len(turn.reply) >= _SHORTEST_REPLY and turn.reply in text:
                return turn.session
        for turn in turns:
            if len(turn.question) >= _SHORTEST_QUESTION and turn.question in text:
                return turn.session
        return None

    def adopt(self, scenario: str, messages: Sequence[Message], now: float) -> str | None:
        """The session of an aside that came before the turn that it quotes. Each is adopted once."""
        question = _question(messages)
        if len(question) < _SHORTEST_QUESTION:
            return None
        with self._lock:
            for orphan in reversed(self._orphans):
                if orphan.scenario == scenario and 0 <= now - orphan.at <= ADOPTION_S and question in orphan.text:
                    self._orphans.remove(orphan)
                    return orphan.session
        return None


def _question(messages: Sequence[Message]) -> str:
    last = next((message for message in reversed(messages) if message.get("role") == "user"), {})
    return _start(text_of(last.get("content")))


def _start(text: str) -> str:
    """The beginning, with white space made even: quotations are wrapped anew."""
    return " ".join(text[: _CHARACTERS * 4].split())[:_CHARACTERS]


def _all_text(messages: Sequence[Message]) -> str:
    texts = [text_of(message.get("content")) for message in messages if message.get("role") not in ("system", "developer")]
    return " ".join("\n".join(texts)[-_LONGEST_SCAN:].split())

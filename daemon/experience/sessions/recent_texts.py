"""What was said lately, to find the session of requests for a title, a summary or a commit message that name none.

Such a request quotes the conversation that it is about. Only the beginnings of the last few hundred turns are held, and of the questions
with which the last sessions began: codex asks for a title while the first question still waits for its answer.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence

from daemon.experience.sessions.keys import text_of
from daemon.experience.sessions.user_words import own_words
from daemon.frozen import dataclass
from daemon.records import Message

CAPACITY = 256
QUESTION_S = 600.0
"""A question alone is quoted by a request that comes soon; the same one is asked again on other days."""
BEGUN = 64
_BEGUN_MESSAGES = 4  # an agent puts rules before the user's words, and what they name behind them
_CHARACTERS = 80
_SHORTEST_QUESTION = 8
_SHORTEST_REPLY = 16
_HELD_CHARACTERS = 4000
_LONGEST_SCAN = 400_000


@dataclass(frozen=True, slots=True)
class _Turn:
    scenario: str
    session: str
    asked: str  # the last user message, its beginning
    reply: str  # its beginning
    at: float


@dataclass(frozen=True, slots=True)
class _Begun:
    scenario: str
    session: str
    asked: tuple[str, ...]  # the user messages, their beginnings
    at: float


class RecentTexts:
    """Thread-safe."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._lock = threading.Lock()
        self._turns: deque[_Turn] = deque(maxlen=capacity)
        self._begun: deque[_Begun] = deque(maxlen=BEGUN)

    def note(self, scenario: str, session: str, messages: Sequence[Message], reply: Message, at: float) -> None:
        """One more turn, which began at `at`, seconds since the epoch. Nothing is looked into yet: a turn seldom has an aside."""
        last = next((message for message in reversed(messages) if message.get("role") == "user"), {})
        turn = _Turn(
            scenario, session, text_of(last.get("content"))[:_HELD_CHARACTERS], text_of(reply.get("content"))[:_HELD_CHARACTERS], at
        )
        with self._lock:
            self._turns.append(turn)

    def begin(self, scenario: str, session: str, messages: Sequence[Message], at: float) -> None:
        """A session's first request came in, and is not answered yet."""
        asked = [message for message in messages if message.get("role") == "user"][-_BEGUN_MESSAGES:]
        begun = _Begun(scenario, session, tuple(_start(text_of(message.get("content"))) for message in asked), at)
        with self._lock:
            self._begun.append(begun)

    def begun_with(self, scenario: str, words: str, now: float) -> str | None:
        """The newest session that began with these words a moment ago."""
        asked = _start(words)
        with self._lock:
            begun = list(self._begun)
        found = (one for one in reversed(begun) if one.scenario == scenario and 0 <= now - one.at <= QUESTION_S and asked in one.asked)
        one = next(found, None) if asked else None
        return one.session if one is not None else None

    def owner(self, scenario: str, messages: Sequence[Message], now: float) -> str | None:
        """The session that a request quotes: by a reply, else by a question; the newest first."""
        texts = [text_of(message.get("content")) for message in messages if message.get("role") not in ("system", "developer")]
        text = " ".join("\n".join(texts)[-_LONGEST_SCAN:].split())
        with self._lock:
            turns = [turn for turn in reversed(self._turns) if turn.scenario == scenario]
        for turn in turns:
            if len(said := _start(turn.reply)) >= _SHORTEST_REPLY and said in text:
                return turn.session
        for turn in turns:
            if 0 <= now - turn.at <= QUESTION_S and len(asked := _question(turn.asked)) >= _SHORTEST_QUESTION and asked in text:
                return turn.session
        return None


def _question(text: str) -> str:
    """What the user typed: agents put reminders before and behind it."""
    return _start(own_words(text).partition("\n")[0])


def _start(text: str) -> str:
    """The beginning, with white space made even: quotations are wrapped anew."""
    return " ".join(text[: _CHARACTERS * 4].split())[:_CHARACTERS]

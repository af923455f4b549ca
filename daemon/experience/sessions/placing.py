"""From a request to its session: what the client says, what is remembered, and what only the database knows any more."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence
from pathlib import Path

from daemon.experience.database import open_reader, storage_errors
from daemon.experience.loading import Loader
from daemon.experience.sessions.grouping import (
    SessionFacts,
    SessionMatch,
    facts_of,
    is_title_thread,
    may_be_aside,
    names_an_aside,
    titled,
    turn_kind,
)
from daemon.experience.sessions.keys import conversation_keys, conversation_marks
from daemon.experience.sessions.memory import Known, SessionIndex
from daemon.experience.sessions.recent_texts import RecentTexts
from daemon.experience.unfiled import settle
from daemon.records import Inference, JSONObject, Lineage, Message, Status, Step, TurnKind, new_id
from daemon.redaction.redact import RedactionRule

_RECALLED_TURNS = 512  # the newest of a session
_WANTED_REPLIES = 64  # the newest of a request, by which its session is looked for

_REPLIES = """
SELECT r.id, i.reply_key, coalesce(p.id, '') FROM inferences i JOIN records r ON r.sequence = i.sequence
LEFT JOIN records p ON p.sequence = i.parent
WHERE i.session = (SELECT s.id FROM sessions s JOIN scenarios c ON c.id = s.scenario WHERE c.name = ? AND s.key = ?)
AND i.kind = 'turn' AND i.status <> 'error' ORDER BY i.sequence DESC LIMIT ?
"""
# CROSS JOIN keeps the order of the tables: with many replies wanted, SQLite would rather walk through all that is stored of the scenario.
_OWNERS = """
SELECT s.key, i.reply_key FROM inferences i CROSS JOIN sessions s ON s.id = i.session CROSS JOIN scenarios c ON c.id = s.scenario
WHERE c.name = ? AND i.kind = 'turn' AND i.reply_key IN (%s) ORDER BY i.sequence DESC LIMIT 256
"""


class Recall:
    """Asks the database for sessions that memory does not hold. Thread-safe; one connection, opened when it is needed.

    What still waits in the journal need not be asked for: memory holds far more turns than may wait there. Only where memory
    was dropped does the next question wait until the tables have it all.
    """

    def __init__(self, path: Path, redaction: RedactionRule | None = None) -> None:
        self._path = path
        self._redaction = redaction or RedactionRule()
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._behind = True

    def memory_dropped(self) -> None:
        """What has a receipt may by now be in the journal alone."""
        self._behind = True

    def close(self) -> None:
        with self._lock:
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def turns(self, scenario: str, session: str) -> list[tuple[str, bytes, str]] | None:
        """(receipt, reply key, receipt that it follows) of a session's turns, oldest first; None: there is no such session."""
        self._catch_up()
        with self._lock, storage_errors():
            connection = self._open()
            rows = connection.execute(_REPLIES, (scenario, session, _RECALLED_TURNS)).fetchall()
            if not rows:
                exists = "SELECT 1 FROM sessions s JOIN scenarios c ON c.id = s.scenario WHERE c.name = ? AND s.key = ?"
                if connection.execute(exists, (scenario, session)).fetchone() is None:
                    return None
        return [(str(receipt), bytes(key), str(follows)) for receipt, key, follows in reversed(rows)]

    def owner(self, scenario: str, messages: Sequence[Message]) -> str | None:
        """The session with the longest prefix of a conversation that ends in our reply."""
        if not any(message.get("role") == "assistant" for message in messages):
            return None
        keys = conversation_keys(self._as_stored(scenario, messages))
        wanted = [key for message, key in zip(messages, keys, strict=True) if message.get("role") == "assistant"][-_WANTED_REPLIES:]
        self._catch_up()
        with self._lock, storage_errors():
            query = _OWNERS % ",".join("?" * len(wanted))
            found = self._open().execute(query, (scenario, *wanted)).fetchall()
        return str(max(found, key=lambda row: wanted.index(row[1]))[0]) if found else None

    def _as_stored(self, scenario: str, messages: Sequence[Message]) -> Sequence[Message]:
        """Keys are taken of what the user's own patterns have left."""
        return self._redaction.of(scenario).messages(messages)[0] if self._redaction.applies(scenario) else messages

    def facts(self, receipt: str) -> SessionFacts | None:
        """System text and tools of a stored turn."""
        self._catch_up()
        with self._lock, storage_errors():
            found = Loader(self._open()).inferences("WHERE r.id = ?", (receipt,))
        return facts_of(found[0].messages, found[0].request) if found else None

    def _catch_up(self) -> None:
        """Outside of the lock: the writer's thread may wait for it."""
        if self._behind:
            self._behind = False
            settle(self._path)

    def _open(self) -> sqlite3.Connection:
        if self._connection is None:
            self._connection = open_reader(self._path)
        return self._connection


class Placer:
    """Decides sessions; remembers what was stored."""

    def __init__(self, index: SessionIndex, recall: Recall) -> None:
        self._index = index
        self._recall = recall
        self._texts = RecentTexts()

    def place(self, scenario: str, explicit: str | None, messages: Sequence[Message], request: JSONObject, now: float) -> SessionMatch:
        """Which session a request belongs to, and how it follows from it. Answers from memory; only a session that memory
        does not hold costs a query."""
        keys = conversation_marks(messages)
        session = explicit or self._index.find(scenario, messages, keys) or self._find_stored(scenario, messages)
        session = session or self._index.first(scenario, keys, now)
        if session is None and is_title_thread(request):
            session = self._texts.begun_with(scenario, titled(messages), now)
        elif session is None and may_be_aside(messages, request) and names_an_aside(messages):
            session = self._quoted(scenario, messages, request, now)
        if session is None:
            kind = turn_kind(messages, request, None, explicit=False)
            return SessionMatch(new_id("ses"), True, kind, Lineage(Step.BEGIN, keys=keys))
        is_new = not self._remember(scenario, session)
        facts = None if is_new else self._facts(scenario, session, messages, request)
        kind = turn_kind(messages, request, facts, explicit=explicit is not None)
        if is_new and kind is TurnKind.TURN:
            self._texts.begin(scenario, session, messages, now)
        return SessionMatch(session, is_new, kind, self._index.lineage(scenario, session, messages, keys, kind))

    def lineage(self, inference: Inference) -> Lineage:
        """How a record whose session is known follows from what is known of it."""
        self._remember(inference.scenario, inference.session)
        keys = conversation_marks(inference.messages)
        return self._index.lineage(inference.scenario, inference.session, inference.messages, keys, inference.kind)

    def add(self, inference: Inference) -> None:
        """Remember a record."""
        if inference.kind is TurnKind.TURN and inference.status is not Status.ERROR:
            self._texts.note(inference.scenario, inference.session, inference.messages, inference.reply, inference.created_at)
        self._index.add(inference)

    def forget(self) -> None:
        """Drop what is remembered: the database has lost some of it."""
        self._index = SessionIndex(complete=False)
        self._texts = RecentTexts()
        self._recall.memory_dropped()

    def close(self) -> None:
        self._recall.close()

    def _find_stored(self, scenario: str, messages: Sequence[Message]) -> str | None:
        return None if self._index.complete else self._recall.owner(scenario, messages)

    def _quoted(self, scenario: str, messages: Sequence[Message], request: JSONObject, now: float) -> str | None:
        """The session that a request quotes, if it is an aside of it."""
        session = self._texts.owner(scenario, messages, now)
        if session is None:
            return None
        facts = self._facts(scenario, session, messages, request)
        return session if turn_kind(messages, request, facts, explicit=False) is TurnKind.ASIDE else None

    def _remember(self, scenario: str, session: str) -> bool:
        """Whether the session is known, by now also to memory."""
        if self._index.knows(scenario, session):
            return True
        turns = None if self._index.complete else self._recall.turns(scenario, session)
        if turns is None:
            return False
        self._index.restore(scenario, session, Known(None, *turns[-1][:2], restored=True) if turns else Known(), turns)
        return True

    def _facts(self, scenario: str, session: str, messages: Sequence[Message], request: JSONObject) -> SessionFacts | None:
        """Of the session's latest turn; read from the database only where they decide something."""
        known = self._index.known(scenario, session)
        if known is None or known.facts is not None or not known.last or not may_be_aside(messages, request):
            return known.facts if known is not None else None
        facts = self._recall.facts(known.last)
        if facts is not None:
            self._index.set_facts(scenario, session, facts)
        return facts

"""The grouping's memory: fed with every record, so that a request is placed without a query.

It knows points of conversations: where a request ended, and where our reply to it did. A request that passes through
such a point follows the turn that made it.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Generic, TypeAlias, TypeVar

from daemon.experience.sessions.grouping import SessionFacts, beginning, begins_with_summary, facts_of, is_summary, issued_call_ids
from daemon.experience.sessions.keys import conversation_keys, conversation_marks, message_mark, reply_mark, text_of
from daemon.frozen import dataclass
from daemon.records import Inference, Lineage, Message, Status, Step, TurnKind

RETRY_WINDOW_S = 60.0
"""Without a session id, the same first request is a retry only if the earlier one failed this recently."""
CAPACITY = 32_768
"""Turns that are held. What is older is asked of the database."""
_SAME_REPLIES = 8
_AMBIGUOUS = ("", "")
_COMMON_ID = re.compile(r"(?:call|toolu|functions\.\w+|tool)?[_:.-]?\d{1,6}")
_TELLING_CHARACTERS = 48  # a reply this long is known again wherever it stands
_SUMMARY_CHARACTERS = 200
_SHORTEST_SUMMARY = 24
_KEPT_MESSAGES = 64

Key: TypeAlias = int | bytes
"""A mark; a key in what was restored from the database."""
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


@dataclass(frozen=False, slots=True)
class _Point:
    """A place in a session's conversation."""

    receipt: str  # of the turn whose request or reply ends here
    asked: bool  # the request ends here; else its reply
    taken_by: Key = 0  # the last key of the request that went on from here first


@dataclass(frozen=True, slots=True)
class _Said:
    """A long reply, known by itself: some clients rewrite what came before it with every turn."""

    session: str
    receipt: str
    asked: int  # how many messages its request had


@dataclass(frozen=True, slots=True)
class _First:
    session: str
    failed: bool
    at: float


@dataclass(frozen=True, slots=True)
class Known:
    """What is remembered of a session."""

    facts: SessionFacts | None = None  # of its latest turn; None: not read yet, or there is none
    last: str = ""  # the latest turn's receipt
    end: Key = 0  # the key of the conversation that ends in its reply
    restored: bool = False  # its turns of before are known by their keys in the database
    summary: str = ""  # a piece of the latest summary that was made for it


class SessionIndex:
    """Thread-safe. Holds keys, not texts: about 40 MB when full."""

    def __init__(self, capacity: int = CAPACITY, *, complete: bool = True) -> None:
        """`complete`: nothing lies in the database alone."""
        self._lock = threading.Lock()
        self._owners = _Bounded[tuple[str, Key], tuple[str, ...]](capacity)
        self._points = _Bounded[tuple[str, str, Key], _Point](2 * capacity)
        self._calls = _Bounded[tuple[str, str], tuple[str, str]](capacity)
        self._said = _Bounded[tuple[str, int], _Said](capacity)
        self._first = _Bounded[tuple[str, int], _First](capacity)
        self._sessions = _Bounded[tuple[str, str], Known](capacity)
        self._complete = complete

    @property
    def complete(self) -> bool:
        """False: older sessions lie only in the database."""
        return self._complete and not (self._points.full or self._sessions.full)

    def add(self, inference: Inference) -> None:
        """Remember a record."""
        keys = inference.lineage.keys or conversation_marks(inference.messages)
        said = message_mark({**inference.reply, "role": "assistant"})
        key = reply_mark(keys, said)
        scenario, session, turn = inference.scenario, inference.session, inference.kind is TurnKind.TURN
        facts = facts_of(inference.messages, inference.request) if turn else None
        with self._lock:
            if inference.status is not Status.ERROR and turn:
                self._put_reply(scenario, session, key, inference.id)
                if len(text_of(inference.reply.get("content"))) >= _TELLING_CHARACTERS:
                    self._put_said(scenario, session, said, inference)
            for call in issued_call_ids(inference.reply):
                mine = (session, inference.id)
                other = self._calls.get((scenario, call), mine)
                self._calls.put((scenario, call), mine if other[0] == session else _AMBIGUOUS)
            if keys:
                self._put_request(scenario, session, _asked_key(keys[-1], turn), inference.id)
                self._first.put((scenario, keys[-1]), _First(session, inference.status is not Status.OK, inference.created_at))
            known = self._sessions.get((scenario, session), Known())
            if turn:
                known = Known(facts, inference.id, key, known.restored, known.summary)
            elif is_summary(inference.messages):
                known = replace(known, summary=_piece(text_of(inference.reply.get("content"))))
            self._sessions.put((scenario, session), known)

    def restore(self, scenario: str, session: str, known: Known, replies: Sequence[tuple[str, bytes, str]]) -> None:
        """Remember a session that was stored earlier: (receipt, reply key, receipt that it follows) of its turns, oldest first."""
        with self._lock:
            for receipt, key, _ in replies:
                self._put_reply(scenario, session, key, receipt)
            ends = {receipt: key for receipt, key, _ in replies}
            for _, key, follows in replies:
                if (end := ends.get(follows)) and (point := self._points.get((scenario, session, end))):
                    point.taken_by = point.taken_by or key  # no request has this key: another one that goes on from here is a branch
            self._sessions.put((scenario, session), known)

    def knows(self, scenario: str, session: str) -> bool:
        return self.known(scenario, session) is not None

    def known(self, scenario: str, session: str) -> Known | None:
        with self._lock:
            return self._sessions.get((scenario, session))

    def set_facts(self, scenario: str, session: str, facts: SessionFacts) -> None:
        with self._lock:
            known = self._sessions.get((scenario, session), Known())
            self._sessions.put((scenario, session), replace(known, facts=facts))

    def find(self, scenario: str, messages: Sequence[Message], keys: Sequence[int]) -> str | None:
        """The session of a request that names none: by our tool-call ids, then by its longest prefix that ends in our reply.

        Ids that any server may have given (`call_1`) only decide between sessions with the same prefix. At last by a long reply of
        ours, whatever stands before it.
        """
        common = ""
        with self._lock:
            for message in reversed(messages) if self._calls else ():
                if message.get("role") != "tool":
                    continue
                call = message.get("tool_call_id")
                session = self._calls.get((scenario, call), _AMBIGUOUS)[0] if isinstance(call, str) else ""
                if session and not _COMMON_ID.fullmatch(str(call)):
                    return session
                common = common or session
            for message, key in zip(reversed(messages), reversed(keys), strict=True):
                if message.get("role") == "assistant" and (owners := self._owners.get((scenario, key))):
                    return common if common in owners else self._free_owner(scenario, owners, key, keys[-1])
            said = self._latest_said(scenario, messages)
        return said[1].session if said is not None else None

    def first(self, scenario: str, keys: Sequence[int], now: float) -> str | None:
        """The session in which the same request failed a moment ago."""
        with self._lock:
            first = self._first.get((scenario, keys[-1])) if keys else None
        return first.session if first is not None and first.failed and 0 <= now - first.at <= RETRY_WINDOW_S else None

    def lineage(self, scenario: str, session: str, messages: Sequence[Message], keys: tuple[int, ...], kind: TurnKind) -> Lineage:
        """How a request follows from what is known of its session."""
        if not keys:
            return Lineage(Step.BEGIN)
        with self._lock:
            if kind is TurnKind.ASIDE:
                point = self._points.get((scenario, session, _asked_key(keys[-1], False)))
                return Lineage(Step.RETRY, point.receipt, keys) if point else Lineage(Step.BEGIN, keys=keys)
            for place in range(len(keys) - 1, -1, -1):
                point = self._points.get((scenario, session, keys[place]))
                if point is not None:
                    return self._follow(scenario, session, messages, keys, place, point)
            known = self._sessions.get((scenario, session))
            if known is not None and known.restored:
                stored = conversation_keys(messages)
                for place in range(len(keys) - 1, -1, -1):
                    point = self._points.get((scenario, session, stored[place]))
                    if point is not None:
                        return self._follow(scenario, session, messages, keys, place, point)
            later = self._latest_call(scenario, session, messages, 0)
            if known is None or not known.last:
                return Lineage(Step.BEGIN, keys=keys)
            if not later and not _summarised(known, beginning(messages)):
                said = self._latest_said(scenario, messages, session)
                if said is None or len(messages) > said[1].asked:
                    return self._behind(known, said, keys)
                later = said[1].receipt
            return self._compacted(scenario, session, known, later or known.last, keys)

    def _compacted(self, scenario: str, session: str, known: Known, follows: str, keys: tuple[int, ...]) -> Lineage:
        if follows == known.last and (end := self._points.get((scenario, session, known.end))):
            end.taken_by = end.taken_by or keys[-1]
        return Lineage(Step.COMPACTION, follows, keys)

    def _behind(self, known: Known, said: tuple[int, _Said] | None, keys: tuple[int, ...]) -> Lineage:
        """Behind a reply of ours whose history was written anew; nothing was taken out of it."""
        if said is None:
            return Lineage(Step.BEGIN, keys=keys)
        step = Step.CONTINUE if said[1].receipt == known.last else Step.BRANCH
        return Lineage(step, said[1].receipt, keys, said[0] + 1)

    def _follow(
        self, scenario: str, session: str, messages: Sequence[Message], keys: tuple[int, ...], place: int, point: _Point
    ) -> Lineage:
        if point.asked and place == len(keys) - 1:
            return Lineage(Step.RETRY, point.receipt, keys)
        # A later turn's call comes back behind a history that is no longer the one that it was made from: parts were cut out.
        later = self._latest_call(scenario, session, messages, place + 1)
        if later and later != point.receipt:
            return Lineage(Step.COMPACTION, later, keys)
        # A client may hold another reply in our reply's place, or none.
        other = point.asked and messages[place + 1].get("role") == "assistant"
        added = place + 2 if other else place + 1
        known = self._sessions.get((scenario, session))
        # codex keeps the users' messages and puts the summary behind them.
        if point.asked and not other and known is not None and known.last and _summarised(known, _texts(messages[added:])):
            return self._compacted(scenario, session, known, known.last, keys)
        if point.taken_by not in (0, keys[-1]):
            return Lineage(Step.BRANCH, point.receipt, keys, added, not other)
        point.taken_by = keys[-1]
        return Lineage(Step.CONTINUE, point.receipt, keys, added, not other)

    def _latest_call(self, scenario: str, session: str, messages: Sequence[Message], start: int) -> str:
        """The turn that made the newest of our tool calls whose result comes back in `messages[start:]`; empty: none."""
        for message in reversed(messages[start:]):
            call = message.get("tool_call_id") if message.get("role") == "tool" else None
            if isinstance(call, str):
                owner, receipt = self._calls.get((scenario, call), _AMBIGUOUS)
                if owner == session and not _COMMON_ID.fullmatch(call):
                    return receipt
        return ""

    def _free_owner(self, scenario: str, owners: tuple[str, ...], key: int, request: int) -> str:
        """Of the sessions that stand at the same reply, one from which nothing went on yet; else the newest."""
        for session in reversed(owners):
            point = self._points.get((scenario, session, key))
            if point is not None and point.taken_by in (0, request):
                return session
        return owners[-1]

    def _latest_said(self, scenario: str, messages: Sequence[Message], session: str | None = None) -> tuple[int, _Said] | None:
        """The newest of our long replies that comes back, whatever stands before it, and its place; of `session` only, if given."""
        for place in range(len(messages) - 1, -1, -1):
            message = messages[place]
            if message.get("role") == "assistant" and len(text_of(message.get("content"))) >= _TELLING_CHARACTERS:
                said = self._said.get((scenario, message_mark(message)))
                if said is not None and said.session and session in (None, said.session):
                    return place, said
        return None

    def _put_said(self, scenario: str, session: str, mark: int, inference: Inference) -> None:
        key = (scenario, mark)
        other = self._said.get(key)
        owner = session if other is None or other.session == session else ""
        self._said.put(key, _Said(owner, inference.id, len(inference.messages)))

    def _put_reply(self, scenario: str, session: str, key: Key, receipt: str) -> None:
        owners = self._owners.get((scenario, key), ())
        if session not in owners:
            owners = (*owners, session)[-_SAME_REPLIES:]
        self._owners.put((scenario, key), owners)
        earlier = self._points.get((scenario, session, key))
        self._points.put((scenario, session, key), _Point(receipt, False, earlier.taken_by if earlier else 0))

    def _put_request(self, scenario: str, session: str, key: Key, receipt: str) -> None:
        earlier = self._points.get((scenario, session, key))
        self._points.put((scenario, session, key), _Point(receipt, True, earlier.taken_by if earlier else 0))


def _asked_key(key: int, turn: bool) -> int:
    """Asides may be sent again, but nothing goes on from them."""
    return key if turn else hash(("aside", key))


def _summarised(known: Known, texts: Sequence[str]) -> bool:
    """Whether one of these texts is the session's summary, or says that it is one."""
    return (bool(known.summary) and any(known.summary in text for text in texts)) or begins_with_summary(texts)


def _texts(messages: Sequence[Message]) -> list[str]:
    return [text_of(message.get("content")) for message in messages[-_KEPT_MESSAGES:]]


def _piece(summary: str) -> str:
    """A line of a summary that is long enough to be known again."""
    lines = [line.strip()[:_SUMMARY_CHARACTERS] for line in summary.splitlines()]
    longest = max(lines, key=len, default="")
    return longest if len(longest) >= _SHORTEST_SUMMARY else ""

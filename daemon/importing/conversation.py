"""A conversation that was held elsewhere: the one type that every reader of files gives, and that the importer stores.

Messages are in OpenAI chat form. Ids that a file does not give are derived from the content, so that the same file read twice gives
the same receipts, and a longer version of a conversation adds only its new turns.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from daemon.errors import DataError
from daemon.importing.messages import check_message
from daemon.records import JSON, JSONObject, Message, Usage

MAX_TURNS = 2000
MAX_MESSAGES = 10_000
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


@dataclass(frozen=True, slots=True)
class ImportedTurn:
    """One request and its reply."""

    added: tuple[Message, ...]  # what the request adds to the conversation of `parent`
    reply: Message
    parent: int | None = None  # the place, in the session, of the turn that this one continues; None: it begins one
    id: str = ""  # its receipt
    created_at: float | None = None  # seconds since the epoch; None: not known
    model: str = ""
    finish_reason: str = ""
    usage: Usage = field(default_factory=lambda: Usage(0, 0))
    score: float | None = None  # feedback that came with it
    feedback: str | JSONObject | None = None


@dataclass(frozen=True, slots=True)
class ImportedSession:
    """Turns in their order; a turn's `parent` comes before it. Branches are turns with the same parent."""

    turns: tuple[ImportedTurn, ...]
    id: str = ""
    tools: tuple[JSONObject, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)


def conversations(session: ImportedSession) -> Iterator[tuple[Message, ...]]:
    """For each turn all messages that its request held."""
    prompts: list[tuple[Message, ...]] = []
    for turn in session.turns:
        before = () if turn.parent is None else (*prompts[turn.parent], session.turns[turn.parent].reply)
        prompts.append((*before, *turn.added))
        yield prompts[-1]


def from_messages(messages: Sequence[JSON], *, tools: Sequence[JSONObject] = (), model: str = "", id: str = "") -> ImportedSession:
    """A conversation written down in one row: every assistant's message answers what stands before it.

    What comes before anybody asked, and an assistant's message with `"weight": 0`, is context and no turn of its own.

    Raises:
        DataError: no messages, or none that is a reply.
    """
    turns: list[ImportedTurn] = []
    added: list[Message] = []
    asked = False
    if len(messages) > MAX_MESSAGES:
        raise DataError(f"The conversation has {len(messages):,} messages; {MAX_MESSAGES:,} are taken.")
    for value in messages:
        message = check_message(value)
        weight = value.get("weight") if isinstance(value, dict) else None
        if message["role"] == "assistant" and asked and weight != 0:
            parent = len(turns) - 1 if turns else None
            turns.append(ImportedTurn(tuple(added), message, parent, model=model))
            added = []
        else:
            asked = asked or message["role"] in ("user", "tool")
            added.append(message)
    if not turns:
        raise DataError("The conversation holds no reply.")
    return ImportedSession(tuple(turns), id, tuple(tools))


def named(session: ImportedSession) -> ImportedSession:
    """The same with every id filled in. Turns that say the same at the same place are one.

    Raises:
        DataError: too many turns, or a parent that does not come before its turn.
    """
    if len(session.turns) > MAX_TURNS:
        raise DataError(f"The session has {len(session.turns):,} turns; {MAX_TURNS:,} are taken.")
    chains: list[bytes] = []
    places: list[int] = []  # of each turn, its place among those that are kept
    kept: list[ImportedTurn] = []
    known: dict[str, int] = {}
    session_id = session.id
    for number, turn in enumerate(session.turns):
        if turn.parent is not None and not 0 <= turn.parent < number:
            raise DataError(f"Turn {number} continues turn {turn.parent}, which does not come before it.")
        chain = chains[turn.parent] if turn.parent is not None else b""
        for message in (*turn.added, turn.reply):
            chain = _link(chain, message)
        chains.append(chain)
        session_id = session_id or stable_id("ses", chain)
        turn_id = turn.id or stable_id("rec", session_id.encode("utf-8", "surrogatepass"), chain)
        if turn_id in known:
            places.append(known[turn_id])
            continue
        known[turn_id] = len(kept)
        places.append(len(kept))
        kept.append(replace(turn, id=turn_id, parent=None if turn.parent is None else places[turn.parent]))
    return replace(session, id=session_id, turns=tuple(kept))


def scored(session: ImportedSession, score: float) -> ImportedSession:
    """The same with `score` for every reply that came without feedback."""
    turns = (replace(turn, score=score) if turn.score is None and turn.feedback is None else turn for turn in session.turns)
    return replace(session, turns=tuple(turns))


def chain_of(messages: Sequence[Message]) -> list[bytes]:
    """For every message a hash of the conversation up to and including it."""
    chain, chains = b"", []
    for message in messages:
        chain = _link(chain, message)
        chains.append(chain)
    return chains


def stable_id(prefix: str, *parts: bytes) -> str:
    """An id such as `rec_i3vk…`, of 120 bits of the content's hash."""
    hasher = hashlib.blake2b(digest_size=15)
    for part in parts:
        hasher.update(len(part).to_bytes(8, "little") + part)
    value = int.from_bytes(hasher.digest(), "big")
    return f"{prefix}_i" + "".join(_ALPHABET[(value >> shift) & 31] for shift in range(115, -1, -5))


def _link(chain: bytes, message: Message) -> bytes:
    said = {name: value for name, value in message.items() if value not in (None, "", [])}
    data = json.dumps(said, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(chain + data, digest_size=16).digest()

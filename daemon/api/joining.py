"""Which turns of an agent's transcript were served here: they are records already, and keep their receipts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from daemon.api.imported_records import IMPORT
from daemon.errors import NotFound
from daemon.experience.reader import Reader
from daemon.experience.sessions.grouping import issued_call_ids, session_id
from daemon.importing.conversation import ImportedSession, ImportedTurn
from daemon.importing.messages import text_of
from daemon.importing.transcript import TRANSCRIPT_TAG
from daemon.records import Inference, Message


@dataclass(frozen=True, slots=True)
class Joined:
    """A session whose turns carry the receipts of the records that they are."""

    session: ImportedSession
    scenarios: Mapping[str, str]  # receipt of a turn that was served here → the scenario that holds it


def join(reader: Reader, scenario: str, session: ImportedSession) -> Joined:
    """Blocks on the disk.

    A turn is a record by its receipt, where the transcript kept the reply's id; else, within the session that the agent named in
    its requests, by the ids of its tool calls, or by its text where it called nothing.
    """
    if TRANSCRIPT_TAG not in session.tags:
        return Joined(session, {})
    served = _Served(reader, scenario, session_id(session.id))
    found: dict[str, str] = {}
    turns: list[ImportedTurn] = []
    for turn in session.turns:
        record = served.record(turn)
        if record is not None and record.id not in found:
            found[record.id] = record.scenario
            turns.append(replace(turn, id=record.id))
        else:
            turns.append(turn)
    return Joined(replace(session, turns=tuple(turns)), found)


class _Served:
    def __init__(self, reader: Reader, scenario: str, session: str) -> None:
        self._reader = reader
        self._by_said: dict[tuple[str, ...], list[Inference]] = {}
        self._by_id: dict[str, Inference] = {}
        try:
            view = reader.session(session, scenario)
        except NotFound:
            return
        for turn in view.turns:
            record = turn.inference
            if record.wire != IMPORT:
                self._by_id[record.id] = record
                self._by_said.setdefault(_said(record.reply), []).append(record)

    def record(self, turn: ImportedTurn) -> Inference | None:
        if turn.id in self._by_id:
            return self._by_id[turn.id]
        if waiting := self._by_said.get(_said(turn.reply)):
            return waiting.pop(0)
        if turn.id.startswith("rec_i"):  # made from the content
            return None
        try:
            record = self._reader.inference(turn.id)
        except NotFound:
            return None
        return record if record.wire != IMPORT else None


def _said(reply: Message) -> tuple[str, ...]:
    """What tells one reply of a session from the others."""
    return tuple(issued_call_ids(reply)) or ("", text_of(reply.get("content")).strip())

"""Record envelopes as records: an inference that can be read becomes one like those served here, a report becomes feedback on it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from daemon import json_text
from daemon.experience.instructions import TRAIN
from daemon.experience.reader import ImportedRecord
from daemon.experience.sessions.grouping import session_id
from daemon.experience.store import Store
from daemon.importing.conversation import chain_of, stable_id
from daemon.importing.envelope import INFERENCE, REPORT, Envelope, Judged, Said, judged, said
from daemon.records import Inference, JSONObject, Report, TurnKind

IMPORT = "import"
"""Wire and release of what was not served here."""


def report_id(content: JSONObject) -> str:
    """The id of feedback that came without one: the same feedback again has the same."""
    return stable_id("rep", json_text.canonical(content).encode("utf-8", "surrogatepass"))


class Importer:
    """Turns the envelopes of one request into what the store takes. Blocks on the disk where memory does not know a session."""

    def __init__(self, store: Store, scenario: str, who: str) -> None:
        """`who`: the rights of the token that they came with, which an instruction keeps."""
        self._store = store
        self._scenario = scenario
        self._who = who
        self._now = time.time()
        self._sessions: dict[bytes, str] = {}  # conversation up to one of our replies → its session

    def items(self, envelopes: Sequence[Envelope]) -> list[Inference | Report | ImportedRecord]:
        return [self._item(envelope) for envelope in envelopes]

    def _item(self, envelope: Envelope) -> Inference | Report | ImportedRecord:
        if envelope.request_type == INFERENCE and (conversation := said(envelope.payload)) is not None:
            return self._inference(envelope.id, conversation)
        if envelope.request_type == REPORT and (judgement := judged(envelope.payload)) is not None:
            return self._report(envelope.id, judgement)
        payload = {**envelope.payload, "who": self._who} if envelope.request_type == TRAIN else envelope.payload
        return ImportedRecord(envelope.id, self._scenario, self._now, envelope.request_type, payload, 0)

    def _inference(self, record: str, conversation: Said) -> Inference:
        session, kind = self._session(record, conversation)
        return Inference(
            id=record,
            scenario=self._scenario,
            session=session,
            created_at=self._now if conversation.created_at is None else min(conversation.created_at, self._now),
            release_id=IMPORT,
            lora_id=None,
            model=conversation.model,
            wire=IMPORT,
            messages=conversation.messages,
            effective_messages=None,
            reply=conversation.reply,
            finish_reason=conversation.finish_reason or ("tool_calls" if conversation.reply.get("tool_calls") else "stop"),
            kind=kind,
            usage=conversation.usage,
            request=conversation.request,
            tags=conversation.tags,
        )

    def _session(self, record: str, conversation: Said) -> tuple[str, TurnKind]:
        """The session that it names; else the one that it continues, here or in what is stored; else one of its own."""
        session = session_id(conversation.session)
        match = self._store.resolve_session(self._scenario, session or None, conversation.messages, conversation.request)
        chains = chain_of((*conversation.messages, conversation.reply))
        if not session:
            continued = (self._sessions[chain] for chain in reversed(chains[:-1]) if chain in self._sessions)
            session = next(continued, "") or (stable_id("ses", record.encode("utf-8", "replace")) if match.is_new else match.session)
        self._sessions[chains[-1]] = session
        return session, match.kind

    def _report(self, record: str, judgement: Judged) -> Report:
        return Report(record, self._scenario, self._now, judgement.references, judgement.score, judgement.feedback, judgement.metadata)

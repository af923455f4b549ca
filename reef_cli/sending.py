"""Sends what an import reads to the daemon, a bounded page at a time, and counts what becomes of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.importing.transfer import to_json
from reef_cli import output

if TYPE_CHECKING:
    from daemon.importing.conversation import ImportedSession
    from daemon.importing.envelope import Envelope
    from daemon.records import JSON, JSONObject
    from reef_cli.client import Client

_PAGE_BYTES = 1 << 20
_PAGE_ITEMS = 200
_TIMEOUT_S = 600.0
_LISTED = 1000


@dataclass(slots=True)
class Outcome:
    """What an import came to. `left_out` lists places with reasons, a bounded number of them; `reasons` counts all."""

    sessions: int = 0
    new: int = 0
    present: int = 0
    left_out: list[tuple[str, str]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)

    def leave_out(self, where: str, reason: str) -> None:
        self.reasons[reason] += 1
        if len(self.left_out) < _LISTED:
            self.left_out.append((where, reason))

    @property
    def skipped(self) -> int:
        return sum(self.reasons.values())


class Sender:
    """Keeps the order: a report comes after the record that it speaks of. `flush` at the end."""

    def __init__(self, client: Client | None, scenario: str, outcome: Outcome, on_page: Callable[[], None]) -> None:
        """`client` None: only count, send nothing."""
        self._client = client
        self._scenario = scenario
        self._outcome = outcome
        self._on_page = on_page
        self._sessions: list[JSON] = []
        self._records: list[JSON] = []
        self._bytes = 0

    def session(self, session: ImportedSession) -> None:
        if self._records:
            self.flush()
        self._outcome.sessions += 1
        if self._client is None:
            self._outcome.new += len(session.turns)
            return
        self._add(self._sessions, to_json(session))

    def record(self, envelope: Envelope) -> None:
        if self._sessions:
            self.flush()
        if self._client is None:
            self._outcome.new += 1
            return
        fields: JSONObject = {"agent_record_id": envelope.id, "request_type": envelope.request_type, "payload": envelope.payload}
        self._add(self._records, fields)

    def flush(self) -> None:
        """Raises what the daemon answers; what was acknowledged before stays stored."""
        if self._client is None:
            return
        if self._sessions:
            answer = self._client.post("/reef/import", {"sessions": self._sessions}, self._scenario, timeout_s=_TIMEOUT_S)
            self._outcome.new += _number(answer.get("new"))
            self._outcome.present += _number(answer.get("present"))
            for refused in output.rows(answer, "refused"):
                self._outcome.leave_out(output.text(refused.get("agent_record_id")), output.text(refused.get("message")))
        if self._records:
            answer = self._client.post("/reef/records/batch", {"records": self._records}, self._scenario, timeout_s=_TIMEOUT_S)
            new = _number(answer.get("new"))
            self._outcome.new += new
            self._outcome.present += len(self._records) - new
        self._sessions, self._records, self._bytes = [], [], 0
        self._on_page()

    def _add(self, page: list[JSON], item: JSONObject) -> None:
        size = len(json.dumps(item))
        if page and (self._bytes + size > _PAGE_BYTES or len(page) == _PAGE_ITEMS):
            self.flush()
            page = self._sessions if "turns" in item else self._records
        page.append(item)
        self._bytes += size


def _number(value: JSON) -> int:
    return value if isinstance(value, int) else 0

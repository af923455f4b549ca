"""Sends what an import reads to the daemon, a bounded page at a time, and counts what becomes of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from daemon.errors import BadRequest, Conflict
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
_SESSIONS, _RECORDS = "import", "records/batch"
_NAMES = {_SESSIONS: "sessions", _RECORDS: "records"}
_MOST_BYTES = {_SESSIONS: 60 << 20, _RECORDS: 9 << 20}
"""What the daemon takes at once, less what stands around it."""
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
        self._path = _SESSIONS
        self._page: list[tuple[str, JSON]] = []  # where each comes from, and what is sent
        self._bytes = 0

    def session(self, where: str, session: ImportedSession) -> None:
        self._outcome.sessions += 1
        if self._client is None:
            self._outcome.new += len(session.turns)
            return
        self._add(_SESSIONS, where, to_json(session))

    def record(self, where: str, envelope: Envelope) -> None:
        if self._client is None:
            self._outcome.new += 1
            return
        self._add(_RECORDS, where, {"agent_record_id": envelope.id, "request_type": envelope.request_type, "payload": envelope.payload})

    def flush(self) -> None:
        """Raises what the daemon answers where it does not serve; what was acknowledged before stays stored."""
        if self._page:
            self._send(self._page)
        self._page, self._bytes = [], 0
        self._on_page()

    def _add(self, path: str, where: str, item: JSONObject) -> None:
        size = len(json.dumps(item))
        if size > _MOST_BYTES[path]:
            self._outcome.leave_out(where, f"larger than {_MOST_BYTES[path] >> 20} MiB")
            return
        if self._page and (path != self._path or self._bytes + size > _PAGE_BYTES or len(self._page) == _PAGE_ITEMS):
            self.flush()
        self._path = path
        self._page.append((where, item))
        self._bytes += size

    def _send(self, page: list[tuple[str, JSON]]) -> None:
        """A page at once; where something in it is refused, one by one, so that only that is left out."""
        if self._client is None:
            return
        items = [item for _, item in page]
        try:
            answer = self._client.post(f"/reef/{self._path}", {_NAMES[self._path]: items}, self._scenario, timeout_s=_TIMEOUT_S)
        except (BadRequest, Conflict) as error:
            if len(page) == 1:
                self._outcome.leave_out(page[0][0], error.message)
                return
            for one in page:
                self._send([one])
            return
        new = _number(answer.get("new"))
        self._outcome.new += new
        self._outcome.present += _number(answer.get("present")) if self._path == _SESSIONS else len(page) - new
        for refused in output.rows(answer, "refused"):
            self._outcome.leave_out(output.text(refused.get("agent_record_id")), output.text(refused.get("message")))


def _number(value: JSON) -> int:
    return value if isinstance(value, int) else 0

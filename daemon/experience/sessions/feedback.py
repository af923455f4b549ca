"""Which replies feedback for a whole session speaks of."""

from __future__ import annotations

from daemon.experience.database import storage_errors
from daemon.experience.reader import Reader
from daemon.experience.statements import clean

MAX_REPLIES = 1000

_REPLIES = """
SELECT r.id, EXISTS (
  SELECT 1 FROM report_references f JOIN reports p ON p.sequence = f.report
  WHERE f.target = r.sequence AND p.score IS NOT NULL AND json_extract(p.metadata, '$.session') IS NULL)
FROM inferences i JOIN records r ON r.sequence = i.sequence JOIN sessions s ON s.id = i.session JOIN scenarios c ON c.id = s.scenario
WHERE c.name = ? AND s.key = ? AND i.kind = 'turn' AND i.status <> 'error' ORDER BY i.sequence DESC LIMIT ?
"""


def replies_of(reader: Reader, scenario: str, session: str) -> list[tuple[str, bool]]:
    """The receipts of a session's turns, the newest `MAX_REPLIES`, oldest first, each with whether it has a score of its own."""
    with storage_errors():
        rows = reader.connection().execute(_REPLIES, (scenario, clean(session), MAX_REPLIES)).fetchall()
    return [(str(receipt), bool(own)) for receipt, own in reversed(rows)]

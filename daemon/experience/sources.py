"""Which sessions a list of receipts comes from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from daemon.experience.database import storage_errors
from daemon.experience.reader import Reader
from daemon.experience.statements import clean


@dataclass(frozen=True, slots=True)
class Source:
    """A session that something was learned from."""

    session: str
    scenario: str
    title: str  # the first user's message, on one line
    created_at: float
    receipts: int  # how many of the receipts that were asked for are its turns


def sources(reader: Reader, scenario: str, receipts: Sequence[str]) -> tuple[list[Source], int]:
    """The sessions of `receipts`, those with most of them first, and how many receipts are not stored (any more).

    A receipt of another scenario is found too: a scenario may learn from what was imported elsewhere.
    """
    wanted = sorted({clean(receipt) for receipt in receipts})
    with storage_errors():
        rows = (
            reader.connection()
            .execute(
                "SELECT s.key, c.name, s.title, s.created_at, count(DISTINCT r.id) FROM json_each(?) w"
                " JOIN records r ON r.id = w.value JOIN inferences i ON i.sequence = r.sequence"
                " JOIN sessions s ON s.id = i.session JOIN scenarios c ON c.id = s.scenario"
                " GROUP BY s.id ORDER BY c.name <> ?, count(DISTINCT r.id) DESC, s.last_sequence DESC",
                (json.dumps(wanted), scenario),
            )
            .fetchall()
        )
    found = [Source(*row) for row in rows]
    return found, max(0, len(wanted) - sum(one.receipts for one in found))

"""What users told their recipes in words (`reef train "…"`), in order; a recipe reads it from the stream."""

from __future__ import annotations

from dataclasses import dataclass

from daemon.experience.packing import object_from_json, unpack
from daemon.experience.reader import Reader

TRAIN = "train"
"""The request type under which an instruction is stored."""

_INSTRUCTIONS = """
SELECT r.sequence, r.id, r.created_at, i.payload
FROM records r JOIN scenarios c ON c.id = r.scenario JOIN imports i ON i.sequence = r.sequence
WHERE c.name = :scenario AND r.kind = 'import' AND i.request_type = 'train'
"""
_NEW = " AND NOT EXISTS (SELECT 1 FROM consumption WHERE scenario = :scenario AND record = r.id)"


@dataclass(frozen=True, slots=True)
class Instruction:
    """`who` holds the rights of the token that it came with: only the owner's words are certain not to be an agent's."""

    id: str
    text: str
    created_at: float  # seconds since the epoch
    who: str  # "owner" or "client"
    sequence: int


def instructions(reader: Reader, scenario: str, *, new: bool, limit: int) -> list[Instruction]:
    """The newest `limit`, oldest first; `new`: only those that no release in force was made from."""
    query = f"{_INSTRUCTIONS}{_NEW if new else ''} ORDER BY r.sequence DESC LIMIT :limit"
    found = []
    for sequence, record, created_at, packed in reader.connection().execute(query, {"scenario": scenario, "limit": limit}).fetchall():
        payload = object_from_json(unpack(packed))
        text, who = payload.get("text"), payload.get("who")
        if isinstance(text, str) and text:
            found.append(Instruction(record, text, created_at, "owner" if who == "owner" else "client", sequence))
    return found[::-1]

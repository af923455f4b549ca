"""Records for the tests of this folder."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

from daemon.experience.reader import ImportedRecord
from daemon.records import Inference, JSONObject, Lineage, Message, Report, Status, TokenTrace, TurnKind, new_id

_clock = itertools.count(1_700_000_000)


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str) -> Message:
    return {"role": "assistant", "content": text}


def system(text: str) -> Message:
    return {"role": "system", "content": text}


def inference(
    messages: Sequence[Message] = ({"role": "user", "content": "hello"},),
    reply: str | Message = "hi there",
    *,
    session: str = "s1",
    scenario: str = "default",
    release_id: str = "r1",
    lora_id: str | None = None,
    status: Status = Status.OK,
    kind: TurnKind = TurnKind.TURN,
    tokens: TokenTrace | None = None,
    request: JSONObject | None = None,
    effective: Sequence[Message] | None = None,
    created_at: float | None = None,
    lineage: Lineage | None = None,
) -> Inference:
    return Inference(
        id=new_id("rec"),
        scenario=scenario,
        session=session,
        created_at=float(next(_clock)) if created_at is None else created_at,
        release_id=release_id,
        lora_id=lora_id,
        model="smol",
        wire="chat",
        messages=tuple(messages),
        effective_messages=None if effective is None else tuple(effective),
        reply=assistant(reply) if isinstance(reply, str) else reply,
        finish_reason="stop",
        status=status,
        kind=kind,
        lineage=lineage or Lineage(),
        tokens=tokens,
        request=request or {},
    )


def report(*references: Inference, score: float | None = None, feedback: str | JSONObject | None = None, report_id: str = "") -> Report:
    return Report(
        id=report_id or new_id("rep"),
        scenario=references[0].scenario if references else "default",
        created_at=float(next(_clock)),
        references=tuple(item.id for item in references),
        score=score,
        feedback=feedback,
    )


def as_it_came(record_id: str, request_type: str, payload: JSONObject, *, scenario: str = "default") -> ImportedRecord:
    return ImportedRecord(record_id, scenario, float(next(_clock)), request_type, payload, 0)


def size_bytes(path: Path) -> int:
    return sum(part.stat().st_size for part in path.parent.glob(path.name + "*"))

"""Rows back into records. Used by the reader, on its read-only connection."""

from __future__ import annotations

import json
import sqlite3
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import cast

from daemon.errors import DataError
from daemon.experience.packing import from_json, object_from_json, unpack, unpack_tokens, unpack_trace
from daemon.records import JSON, Inference, JSONObject, Lineage, Message, Report, Sampling, Status, Step, TokenTrace, TurnKind, Usage

_REMEMBERED_BYTES = 4 << 20  # of message bodies, for each thread that reads
_CONVERSATIONS = 8

STEPS = tuple(Step)
"""By what the database holds; NULL stands for the first."""

INFERENCES = """
SELECT r.sequence, r.id, c.name, s.key, r.created_at, release.text, lora.text, model.text, wire.text, i.kind, i.status, i.finish_reason,
       i.prompt, i.effective, i.reply, i.detail, i.token_block, i.trace, i.step, p.id
FROM records r JOIN inferences i ON i.sequence = r.sequence JOIN scenarios c ON c.id = r.scenario JOIN sessions s ON s.id = i.session
JOIN words release ON release.id = i.release LEFT JOIN words lora ON lora.id = i.lora
JOIN words model ON model.id = i.model JOIN words wire ON wire.id = i.wire LEFT JOIN records p ON p.sequence = i.parent
"""
REPORTS = """
SELECT r.sequence, r.id, c.name, r.created_at, p.score, p.feedback, p.metadata
FROM records r JOIN reports p ON p.sequence = r.sequence JOIN scenarios c ON c.id = r.scenario
"""
_MESSAGE = "SELECT m.parent, m.body, b.data FROM messages m LEFT JOIN blobs b ON b.id = m.blob WHERE m.id = ?"
_BLOCKS = """
WITH RECURSIVE chain (parent, data, depth) AS (
  SELECT parent, data, 0 FROM token_blocks WHERE id = ?
  UNION ALL SELECT b.parent, b.data, chain.depth + 1 FROM chain JOIN token_blocks b ON b.id = chain.parent)
SELECT data FROM chain ORDER BY depth DESC
"""


@dataclass(frozen=True, slots=True)
class _Node:
    """One message of the forest."""

    parent: int | None
    message: Message
    size_bytes: int


class Loader:
    """Rebuilds records. What it returns shares messages between records: treat them as immutable."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._nodes: OrderedDict[int, _Node] = OrderedDict()
        self._held_bytes = 0
        self._conversations: OrderedDict[int, tuple[Message, ...]] = OrderedDict()  # by leaf: the next turn's goes on from one of them

    def inferences(self, where: str, values: Sequence[str | int | float]) -> list[Inference]:
        return [self._inference(row) for row in self._connection.execute(INFERENCES + where, values).fetchall()]

    def reports(self, where: str, values: Sequence[str | int | float]) -> list[Report]:
        return [self._report(row) for row in self._connection.execute(REPORTS + where, values).fetchall()]

    def conversation(self, leaf: int | None) -> tuple[Message, ...]:
        """All messages from the first to `leaf`. Those of a session share what they have in common."""
        if leaf is None:
            return ()
        messages: list[Message] = []
        place: int | None = leaf
        before: tuple[Message, ...] = ()
        while place is not None:
            known = self._conversations.get(place)
            if known is not None:
                before = known
                break
            node = self._node(place)
            messages.append(node.message)
            place = node.parent
        found = self._conversations[leaf] = (*before, *reversed(messages))
        if len(self._conversations) > _CONVERSATIONS:
            self._conversations.popitem(last=False)
        return found

    def reply(self, sequence: int) -> Message | None:
        """One record's reply alone."""
        row = self._connection.execute("SELECT reply FROM inferences WHERE sequence = ?", (sequence,)).fetchone()
        return None if row is None else self._node(int(row[0])).message

    def _node(self, number: int) -> _Node:
        known = self._nodes.get(number)
        if known is not None:
            return known
        row = self._connection.execute(_MESSAGE, (number,)).fetchone()
        if row is None:
            raise DataError("A stored message is missing.", "Run `reef fsck`.")
        body = unpack(row[2] if row[1] is None else row[1])
        node = self._nodes[number] = _Node(row[0], object_from_json(body), len(body))
        self._held_bytes += node.size_bytes
        while self._held_bytes > _REMEMBERED_BYTES:
            self._held_bytes -= self._nodes.popitem(last=False)[1].size_bytes
        return node

    def _inference(self, row: tuple[object, ...]) -> Inference:
        (sequence, record, scenario, session, created_at, release, lora, model, wire, kind, status, finish_reason) = cast(
            "tuple[int, str, str, str, float, str, str | None, str, str, str, str, str]", row[:12]
        )
        prompt, effective, reply, packed, block, trace, step, follows = cast(
            "tuple[int | None, int | None, int, bytes, int | None, bytes | None, int | None, str | None]", row[12:]
        )
        detail = object_from_json(unpack(packed))
        first_token_ms, total_ms = cast("list[float]", detail["ms"])
        return Inference(
            id=record,
            scenario=scenario,
            session=session,
            created_at=created_at,
            release_id=release,
            lora_id=lora,
            model=model,
            wire=wire,
            messages=self.conversation(prompt),
            effective_messages=None if effective is None else self.conversation(effective),
            reply=self._node(reply).message,
            finish_reason=finish_reason,
            status=Status(status),
            kind=TurnKind(kind),
            lineage=Lineage(STEPS[step or 0], follows or ""),
            usage=Usage(*_integers(detail["usage"])),
            sampling=_sampling(_object(detail.get("sampling"))),
            tokens=None if trace is None else self._tokens(block, trace, detail.get("masked")),
            request=self._request(detail),
            tags={name: str(value) for name, value in _object(detail.get("tags")).items()},
            error=str(detail.get("error", "")),
            note=str(detail.get("note", "")),
            cache_miss=str(detail.get("cache_miss", "")),
            first_token_ms=first_token_ms,
            total_ms=total_ms,
            redactions=int(cast(int, detail.get("redactions", 0))),
            sequence=sequence,
        )

    def _request(self, detail: JSONObject) -> JSONObject:
        request = dict(_object(detail.get("request")))
        for name, blob in _object(detail.get("large")).items():
            row = self._connection.execute("SELECT data FROM blobs WHERE id = ?", (cast(int, blob),)).fetchone()
            if row is None:
                raise DataError("A stored request is incomplete.", "Run `reef fsck`.")
            request[name] = from_json(unpack(row[0]))
        return request

    def _tokens(self, block: int | None, trace: bytes, masked: JSON) -> TokenTrace:
        prompt: list[int] = []
        if block is not None:
            for (data,) in self._connection.execute(_BLOCKS, (block,)):
                prompt.extend(unpack_tokens(data))
        rest, completion, logprobs = unpack_trace(trace)
        spans = tuple((int(start), int(stop)) for start, stop in cast("list[tuple[int, int]]", masked or []))
        return TokenTrace((*prompt, *rest), tuple(completion), tuple(logprobs), spans)

    def _report(self, row: tuple[object, ...]) -> Report:
        sequence, record, scenario, created_at, score, feedback, metadata = cast("tuple[int, str, str, float, float | None, str, str]", row)
        references = self._connection.execute(
            "SELECT t.id FROM report_references f JOIN records t ON t.sequence = f.target WHERE f.report = ? ORDER BY f.position",
            (sequence,),
        ).fetchall()
        return Report(
            id=record,
            scenario=scenario,
            created_at=created_at,
            references=tuple(str(row[0]) for row in references),
            score=score,
            feedback=cast("str | JSONObject | None", json.loads(feedback)),
            metadata=_object(json.loads(metadata)),
            sequence=sequence,
        )


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _integers(value: JSON) -> list[int]:
    return [int(item) for item in cast("Iterable[int]", value)]


def _sampling(fields: JSONObject) -> Sampling:
    settings = dict(fields)
    stop, bias = settings.pop("stop", []), settings.pop("logit_bias", [])
    return Sampling(
        stop=tuple(str(item) for item in cast("Iterable[str]", stop)),
        logit_bias=tuple((int(token), float(value)) for token, value in cast("Iterable[tuple[int, float]]", bias)),
        **cast("dict[str, float]", settings),  # type: ignore[arg-type]
    )

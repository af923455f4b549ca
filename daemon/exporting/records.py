"""Reef's own records, one envelope a line, for another Reef: what `reef import` and reef-client's import take."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.exporting.conversation import Conversation, Format
from daemon.records import Inference, JSONObject, Report

_MAX_ID_CHARACTERS = 200


class RecordFormat(Format):
    """Inferences first, then what was reported on them. `good_only`: those with a score above zero or a correction."""

    name = "records"

    def lines(self, conversation: Conversation, good_only: bool) -> Iterator[JSONObject]:
        turns = [turn for turn in conversation.turns if not good_only or turn.accepted is not None]
        reports: dict[str, Report] = {}
        for turn in turns:
            yield _envelope(turn.inference.id, "inference", _inference(turn.inference))
            reports |= {report.id: report for report in turn.reports}
        here = {turn.inference.id for turn in turns}
        for report in reports.values():
            references = [receipt for receipt in report.references if receipt in here]
            whole = len(references) == len(report.references)
            name = report.id if whole else f"{report.id}~{conversation.session}"[:_MAX_ID_CHARACTERS]
            said: JSONObject = {"references": list(references), "score": report.score, "feedback": report.feedback}
            yield _envelope(name, "report", {**said, "metadata": report.metadata})


def _envelope(record: str, kind: str, payload: JSONObject) -> JSONObject:
    return {"agent_record_id": record, "request_type": kind, "payload": payload}


def _inference(item: Inference) -> JSONObject:
    usage = item.usage
    return {
        "session": item.session,
        "created_at": item.created_at,
        "model": item.model,
        "messages": list(item.messages),
        "reply": item.reply,
        "finish_reason": item.finish_reason,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "tags": dict(item.tags),
        "request": item.request,
    }

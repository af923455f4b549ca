"""Records and releases as JSON."""

from __future__ import annotations

from daemon.experience.reader import ImportedRecord
from daemon.experience.sessions.listing import SessionSummary
from daemon.experience.sessions.turns import SessionTurn
from daemon.records import JSON, Inference, JSONObject, Report
from daemon.versions.release import Release
from daemon.versions.words import line_of, parts_of


def inference_view(inference: Inference, *, with_tokens: bool = False) -> JSONObject:
    """One record. Token ids and log-probabilities only where asked for: they are long."""
    usage = inference.usage
    found: JSONObject = {
        "receipt": inference.id,
        "scenario": inference.scenario,
        "session": inference.session,
        "sequence": inference.sequence,
        "created_at": inference.created_at,
        "release_id": inference.release_id,
        "lora": inference.lora_id,
        "model": inference.model,
        "wire": inference.wire,
        "kind": inference.kind.value,
        "status": inference.status.value,
        "finish_reason": inference.finish_reason,
        "error": inference.error,
        "note": inference.note,
        "cache_miss": inference.cache_miss,
        "messages": list(inference.messages),
        "effective_messages": list(inference.effective_messages) if inference.effective_messages is not None else None,
        "reply": inference.reply,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "cached_tokens": usage.cached_tokens,
        },
        "tags": dict(inference.tags),
        "first_token_ms": round(inference.first_token_ms, 1),
        "total_ms": round(inference.total_ms, 1),
        "redactions": inference.redactions,
        "has_tokens": inference.tokens is not None,
    }
    if with_tokens:
        found["request"] = inference.request
        found["tokens"] = tokens_view(inference)
    return found


def tokens_view(inference: Inference) -> JSON:
    trace = inference.tokens
    if trace is None:
        return None
    return {"prompt": list(trace.prompt), "completion": list(trace.completion), "logprobs": list(trace.logprobs)}


def report_view(report: Report) -> JSONObject:
    return {
        "agent_record_id": report.id,
        "scenario": report.scenario,
        "sequence": report.sequence,
        "created_at": report.created_at,
        "references": list(report.references),
        "score": report.score,
        "feedback": report.feedback,
        "metadata": report.metadata,
    }


def record_view(item: Inference | Report | ImportedRecord) -> JSONObject:
    """Any item of the stream, in the envelope that all share."""
    if isinstance(item, Inference):
        kind, payload = "inference", inference_view(item, with_tokens=True)
    elif isinstance(item, Report):
        kind, payload = "report", report_view(item)
    else:
        kind, payload = item.request_type, item.payload
    return {
        "agent_record_id": item.id,
        "scenario": item.scenario,
        "request_type": kind,
        "sequence": item.sequence,
        "created_at": item.created_at,
        "payload": payload,
    }


def session_view(summary: SessionSummary) -> JSONObject:
    return {
        "id": summary.id,
        "scenario": summary.scenario,
        "title": summary.title,
        "created_at": summary.created_at,
        "updated_at": summary.updated_at,
        "turns": summary.turns,
        "asides": summary.asides,
        "reports": summary.reports,
        "releases": list(summary.releases),
        "last_receipt": summary.last_receipt,
        "last_sequence": summary.last_sequence,
        "snippet": summary.snippet,
    }


def turn_view(turn: SessionTurn, *, whole: bool = False) -> JSONObject:
    """One record of a session. Of its request only what it adds, `whole` or not in `messages`: a session resends itself with every turn."""
    shown = inference_view(turn.inference)
    if not whole:
        del shown["messages"], shown["effective_messages"]
    return {
        **shown,
        "step": turn.inference.lineage.step.value,
        "follows": turn.inference.lineage.follows or None,
        "line": turn.line,
        "message_count": len(turn.inference.messages),
        "added": list(turn.new_messages),
        "signals": list(turn.signals),
        "retries": turn.retries,
        "reports": [report_view(report) for report in turn.reports],
    }


def release_view(release: Release, current: str | None) -> JSONObject:
    """One line of the release list."""
    manifest = release.manifest
    summary = manifest.evaluation.model_dump(mode="json") if manifest.evaluation is not None else None
    parts = parts_of(manifest)
    return {
        "release_id": manifest.release_id,
        "parent_release_id": manifest.parent_release_id,
        "content_id": release.content_id,
        "operation": manifest.operation.value,
        "state": release.state.value,
        "pending": release.pending,
        "current": manifest.release_id == current,
        "recorded_at": manifest.created_at,
        "change": manifest.change,
        "line": line_of(parts),
        "parts": [{"text": part.text, "weight": part.weight} for part in parts],
        "recipe": manifest.recipe.name if manifest.recipe is not None else None,
        "run_id": manifest.run_id,
        "restores": manifest.restores,
        "verdict": manifest.verdict,
        "who": manifest.who,
        "lora": release.lora.id if release.lora is not None else None,
        "metrics": summary,
        "evaluation": summary,
    }

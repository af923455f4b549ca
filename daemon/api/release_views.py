"""Releases and their comparisons as JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum

from pydantic import BaseModel

from daemon.api.views import release_view
from daemon.experience.runs import Run
from daemon.experience.sources import Source
from daemon.records import JSON, JSONObject
from daemon.versions.diff import ReleaseDiff
from daemon.versions.listing import Listed
from daemon.versions.mutations import MutationFacts, Mutations
from daemon.versions.tasks_compared import TaskPair, TasksCompared
from daemon.versions.why import Answer, Event
from daemon.versions.words import Part, change_parts, line_of

_REPLIES = ("detail_before", "detail_after", "reply_before", "reply_after")


def listed_view(listed: Listed) -> JSONObject:
    """One line of the list."""
    release = listed.release
    return {
        **release_view(release, release.id if listed.current else None),
        "pinned": listed.pinned,
        "aged": listed.aged,
        "promoted_as": listed.promoted_as,
        "weights_collected": listed.weights_collected,
    }


def detail_view(
    listed: Listed, sources: tuple[Sequence[Source], int], run: Run | None, later: Sequence[str], said: Mutations | None
) -> JSONObject:
    """Everything that pins a release, and where it comes from.

    Args:
        said: what it says of each change of its harness.
        sources: the sessions that it learned from, and how many of its records are gone.
        later: ids of the releases that let it serve, or brought it back.
    """
    release = listed.release
    manifest: JSONObject = release.manifest.model_dump(mode="json")
    pinning: JSONObject = {name: manifest[name] for name in ("artifacts", "base", "engine", "recipe", "seed", "records")}
    files: JSONObject = dict(release.tree.files)
    line = listed_view(listed)
    line.pop("metrics")
    sessions, gone = sources
    return {
        **line,
        **pinning,
        "commit_id": release.commit_id,
        "files": files,
        "tasks": release.evaluation,
        "sessions": [source_view(source) for source in sessions],
        "records_gone": gone,
        "run": _run_view(run) if run is not None else None,
        "sizes": {
            "lora_bytes": release.lora.served_bytes if release.lora is not None else 0,
            "harness_bytes": release.tree.size_bytes,
            "files": len(release.tree.files),
        },
        "later": list(later),
        "mutations": [mutation_view(one) for one in said.mutations] if said is not None else [],
        "inverse": [plain(one) for one in said.inverse] if said is not None else [],
    }


def source_view(source: Source) -> JSONObject:
    return {
        "id": source.session,
        "scenario": source.scenario,
        "title": source.title,
        "created_at": source.created_at,
        "receipts": source.receipts,
    }


def diff_view(found: ReleaseDiff, compared: TasksCompared, *, replies: bool) -> JSONObject:
    """Two releases side by side; what both replied to each task only where it is asked for."""
    parts = change_parts(found.change)
    tasks: JSONObject = {split: [_task_view(pair, replies) for pair in pairs] for split, pairs in (compared.tasks or {}).items()}
    return {
        **{field.name: plain(getattr(found, field.name)) for field in dataclasses.fields(found)},
        "line": line_of(parts),
        "parts": parts_view(parts),
        "tasks_compared": compared.played.value if compared.played is not None else None,
        "tasks": tasks,
        "tally": plain(compared.tally()),
    }


def mutation_view(one: MutationFacts) -> JSONObject:
    return {"kind": one.kind, "entry": one.entry, "reason": one.reason, "sessions": list(one.sessions), "author": one.author}


def why_view(answer: Answer, behind: Sequence[tuple[Sequence[Source], MutationFacts | None]]) -> JSONObject:
    """Args:
    behind: of each of the answer's events the sessions, and what its release says of that change.
    """
    return {
        "text": answer.text,
        "match": answer.match.value,
        "serving": answer.serving,
        "releases": [_event_view(event, found, said) for event, (found, said) in zip(answer.events, behind, strict=True)],
        "nearest": [
            {"path": one.path, "line": one.line, "release_id": one.release_id, "likeness": round(one.likeness, 3)} for one in answer.nearest
        ],
    }


def parts_view(parts: Sequence[Part]) -> JSON:
    return [{"text": part.text, "weight": part.weight} for part in parts]


def _event_view(event: Event, sessions: Sequence[Source], said: MutationFacts | None) -> JSONObject:
    view = release_view(event.release, None)
    names = ("release_id", "state", "operation", "recorded_at", "who", "run_id", "restores", "recipe", "verdict")
    return {
        **{name: view[name] for name in names},
        "change": view["line"],
        "event": event.kind.value,
        "path": event.path,
        "line": event.line,
        "number": event.number,
        "sessions": [source_view(source) for source in sessions],
        "reason": said.reason if said is not None else "",
        "author": said.author if said is not None else "",
        "evidence": list(said.sessions) if said is not None else [],
    }


def _task_view(pair: TaskPair, replies: bool) -> JSONObject:
    shown = (field.name for field in dataclasses.fields(pair) if replies or field.name not in _REPLIES)
    return {name: plain(getattr(pair, name)) for name in shown}


def _run_view(run: Run) -> JSONObject:
    return {
        "id": run.id,
        "recipe": run.recipe,
        "status": run.status.value,
        "trigger": run.trigger,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "sentence": run.sentence,
    }


def plain(value: object) -> JSON:
    """Nested dataclasses and models of a comparison as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        dumped: JSONObject = value.model_dump(mode="json")
        return dumped
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): plain(item) for name, item in value.items()}
    return value if isinstance(value, str | int | float | bool) else None

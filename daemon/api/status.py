"""GET /reef/status: what serves, what learns, what is queued, what failed, disk use."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.runs import run_view
from daemon.config import LlamaConfig, write_size
from daemon.engine.base import CacheStats
from daemon.errors import DataError
from daemon.experience.removal.retention import read_removed
from daemon.experience.runs import RunStatus
from daemon.gateway.errors import json_response
from daemon.paths import Home
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.release import Release


class StatusRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/status", self.status, methods=["GET"])]

    async def status(self, request: Request) -> Response:
        services = self._services
        scenarios, disk, retention, agents = await asyncio.gather(
            asyncio.to_thread(self._scenarios),
            asyncio.to_thread(_disk, services.home),
            asyncio.to_thread(self._retention),
            asyncio.to_thread(self._agents),
        )
        learn = services.config.learn
        return json_response(
            {
                "version": services.version,
                "pid": os.getpid(),
                "home": str(services.home.root),
                "base_url": services.base_url,
                "started_at": services.started_at,
                "uptime_s": round(time.time() - services.started_at, 1),
                "engine": engine_view(services),
                "in_flight": services.serving.activity.in_flight,
                "learn": {"mode": learn.mode, "idle_s": learn.idle_s, "recipe": services.config.reef.recipe},
                "scenarios": scenarios,
                "agents": agents,
                "disk": disk,
                "retention": retention,
                "warnings": [
                    *services.warnings,
                    *_refusing(services.store.commits.failing),
                    *_retention(disk, services.config.storage.retention_bytes),
                    *_window(services),
                ],
            }
        )

    def _retention(self) -> JSONObject:
        """The limits, and what was removed to keep within them."""
        storage, removed = self._services.config.storage, read_removed(self._services.reader)
        return {
            "limit_bytes": storage.retention_bytes,
            "limit_days": storage.retention_days,
            "removed_sessions": removed.sessions,
            "removed_records": removed.records,
            "removed_at": removed.at,
        }

    def _agents(self) -> list[JSON]:
        """The installed agents; reads files, so call it in a thread."""
        model, url = self._services.engine.model.id, self._services.base_url
        found: list[JSON] = []
        for agent in self._services.agents.look():
            changed: list[JSON] = [*agent.changed]
            told = agent.binding
            notes: list[JSON] = [agent.sentence] if agent.sentence else []
            if told is not None and (told.model_id != model or told.base_url != url):
                notes.append(f"{agent.name}: set up for {told.model_id} at {told.base_url}; renew it: reef update {agent.name}")
            found.append({"name": agent.name, "version": agent.version, "release_id": agent.release_id, "changed": changed, "notes": notes})
        return found

    def _scenarios(self) -> list[JSON]:
        """One entry a scenario; reads the database and the repository, so call it in a thread."""
        services = self._services
        found: list[JSON] = []
        for name, head in sorted(services.serving.heads.items()):
            counts = services.reader.counts(name)
            release, held = _of_git(services, name)
            latest = next(iter(services.runs.list(name, limit=1)), None)
            found.append(
                {
                    "name": name,
                    "release_id": head.release_id,
                    "lora": head.lora.id if head.lora is not None else None,
                    "demonstrations": len(head.hints.demonstrations),
                    "change": release.manifest.change if release is not None else "",
                    "published_at": release.manifest.created_at if release is not None else None,
                    "held": held,
                    "sessions": counts.sessions,
                    "sessions_under_way": services.serving.sessions_under_way(name),
                    "records": counts.inferences,
                    "reports": counts.reports,
                    "last_sequence": counts.last_sequence,
                    "idle_s": round(services.serving.activity.idle_s(name), 1),
                    "recipe": services.config.for_scenario(name).reef.recipe,
                    "run": run_view(latest) if latest is not None and latest.status is RunStatus.RUNNING else None,
                    "last_failure": run_view(latest) if latest is not None and latest.status is RunStatus.FAILED else None,
                }
            )
        return found


def engine_view(services: Services) -> JSONObject:
    """What computes, for the owner's eyes."""
    engine = services.engine
    stats, model = engine.stats, engine.model
    capabilities: list[JSON] = list(engine.capabilities.names())
    loras: list[JSON] = list(stats.loras)
    return {
        "kind": services.config.engine.kind,
        "state": stats.state,
        "detail": stats.detail,
        "model": model.id,
        "context_tokens": model.context_tokens,
        "quantisation": model.quantisation,
        "architecture": model.architecture,
        "tool_format": model.tool_format,
        "size_bytes": model.size_bytes,
        "sha256": model.sha256,
        "capabilities": capabilities,
        "active": stats.active,
        "queued": stats.queued,
        "loras": loras,
        "restarts": stats.restarts,
        "cache": _cache(stats.cache),
    }


def _cache(cache: CacheStats) -> JSONObject:
    """What the prefix cache has saved since the engine started."""
    prompts = cache.read_tokens + cache.reused_tokens
    misses: JSONObject = {reason: count for reason, count in cache.misses.items() if count}
    return {
        "read_tokens": cache.read_tokens,
        "reused_tokens": cache.reused_tokens,
        "reused_share": round(cache.reused_tokens / prompts, 4) if prompts else None,
        "held_bytes": cache.held_bytes,
        "limit_bytes": cache.limit_bytes,
        "misses": misses,
    }


def _of_git(services: Services, scenario: str) -> tuple[Release | None, list[JSON]]:
    """The head, and the ids of what is held. What is damaged must not hide all else: the warnings tell of it."""
    try:
        release = services.repository.head(scenario)
        return release, [held.id for held in services.repository.held(scenario)]
    except DataError as error:
        sentence = f"A release of {scenario} is damaged: {error}"
        if sentence not in services.warnings:
            services.warnings.append(sentence)
        return None, []


def _disk(home: Home) -> JSONObject:
    """Bytes of what Reef keeps, and free on its disk. Models and installed agents (tens of thousands of files) do not count."""
    experience = sum(_size(Path(f"{home.database}{suffix}")) for suffix in ("", "-wal"))
    used = experience
    for place in (home.versions, home.runs, home.loras, home.log.parent):
        for folder, _, files in os.walk(place):
            used += sum(_size(Path(folder, name)) for name in files)
    return {"used_bytes": used, "experience_bytes": experience, "free_bytes": shutil.disk_usage(home.root).free}


def _size(path: Path) -> int:
    try:
        return path.lstat().st_size
    except OSError:
        return 0  # not there, or gone meanwhile


def _refusing(why: str) -> list[JSON]:
    """A warning while nothing can be stored: requests are refused, for no receipt could be given."""
    return [f"Nothing can be stored at present. {why}"] if why else []


def _window(services: Services) -> list[JSON]:
    """A warning where the settings ask for a longer window than the model has."""
    engine, model = services.started_with.engine, services.engine.model
    if not isinstance(engine, LlamaConfig) or engine.context == "auto" or engine.context <= model.context_tokens:
        return []
    return [f"engine.context is {engine.context:,}, but {model.id} holds {model.context_tokens:,} tokens and no more."]


def _retention(disk: JSONObject, limit_bytes: int) -> list[JSON]:
    """A warning where more experience is kept than the settings allow."""
    stored = disk["experience_bytes"]
    if not isinstance(stored, int) or not limit_bytes or stored <= limit_bytes:
        return []
    return [
        f"The experience takes {stored / (1 << 20):.1f} MiB, more than storage.retention_bytes ({write_size(limit_bytes)}). Old sessions"
        " are removed every hour;"
        " what releases were made from and what was used lately stays, and pages that became free are used again."
    ]

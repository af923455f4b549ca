"""Releases: list, show, compare."""

from __future__ import annotations

import asyncio
import dataclasses
from enum import StrEnum

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import query_integer, scenario_in_path
from daemon.api.views import release_detail, release_view
from daemon.errors import NotFound
from daemon.gateway.errors import json_response
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.diff import ReleaseDiff, diff
from daemon.versions.release import Release

_HEAD = "head"


class ReleaseRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}"
        return [
            Route(f"{base}/releases", self.list_all, methods=["GET"]),
            Route(f"{base}/releases/{{release}}", self.show, methods=["GET"]),
            Route(f"{base}/releases/{{before}}/diff/{{after}}", self.diff, methods=["GET"]),
        ]

    async def list_all(self, request: Request) -> Response:
        """Newest first: the chain, and the candidates that are held or were rejected."""
        scenario, limit = scenario_in_path(request, self._services), query_integer(request, "limit", 50, 1, 1000)
        found = await asyncio.to_thread(self._all, scenario, limit)
        current = self._current(scenario)
        return json_response({"releases": [release_view(release, current) for release in found]})

    async def show(self, request: Request) -> Response:
        scenario = scenario_in_path(request, self._services)
        release = await self._find(scenario, str(request.path_params["release"]))
        return json_response(release_detail(release, self._current(scenario)))

    async def diff(self, request: Request) -> Response:
        """Either side may be `head`."""
        scenario = scenario_in_path(request, self._services)
        before = await self._find(scenario, str(request.path_params["before"]))
        after = await self._find(scenario, str(request.path_params["after"]))
        found = await asyncio.to_thread(diff, before, after, self._services.repository.weights)
        return json_response(_diff_view(found))

    def _current(self, scenario: str) -> str | None:
        head = self._services.serving.head(scenario)
        return head.release_id if head is not None else None

    async def _find(self, scenario: str, release_id: str) -> Release:
        repository = self._services.repository
        if release_id == _HEAD:
            head = await asyncio.to_thread(repository.head, scenario)
            if head is None:
                raise NotFound(f"The scenario {scenario} has no release yet.", "Send it a request first.")
            return head
        return await asyncio.to_thread(repository.release, scenario, release_id)

    def _all(self, scenario: str, limit: int) -> list[Release]:
        repository = self._services.repository
        found = [*repository.chain(scenario, limit), *repository.held(scenario), *repository.rejected(scenario)]
        found.sort(key=lambda release: -release.manifest.number)
        return found[:limit]


def _diff_view(found: ReleaseDiff) -> JSONObject:
    return {field.name: _plain(getattr(found, field.name)) for field in dataclasses.fields(found)}


def _plain(value: object) -> JSON:
    """Nested dataclasses and models of a comparison as JSON."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, BaseModel):
        dumped: JSONObject = value.model_dump(mode="json")
        return dumped
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value if isinstance(value, str | int | float | bool) else None

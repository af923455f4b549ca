"""The harness of a scenario, for whoever installs it."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import known_scenario
from daemon.api.views import release_view
from daemon.errors import NotFound
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.harness.adapter import adapter_names
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.release import Release


class HarnessRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [
            Route("/reef/harness", self.show, methods=["GET"]),
            Route("/reef/harness/adapters", self.adapters, methods=["GET"]),
            Route("/reef/harness/releases", self.releases, methods=["GET"]),
            Route("/reef/harness/versions", self.versions, methods=["GET"]),
        ]

    async def show(self, request: Request) -> Response:
        """The head's files, or those of `release_id`, or of `version`: a release or an artifact version."""
        scenario = known_scenario(scenario_of(request), self._services)
        release = await asyncio.to_thread(
            self._find, scenario, request.query_params.get("release_id", ""), request.query_params.get("version", "")
        )
        summary = release.manifest.evaluation
        files: JSONObject = dict(release.tree.files)
        return json_response(
            {
                "release_id": release.id,
                "artifact_version": release.content_id,
                "content_id": release.tree.content_id,
                "parent_release_id": release.manifest.parent_release_id,
                "files": files,
                "evaluation": summary.model_dump(mode="json") if summary is not None else None,
            }
        )

    def _find(self, scenario: str, release_id: str, version: str) -> Release:
        """Raises `NotFound`."""
        repository = self._services.repository
        if release_id:
            return repository.release(scenario, release_id)
        if version:
            found = next((release for release in repository.chain(scenario) if version in (release.id, release.content_id)), None)
            return found or repository.release(scenario, version)
        head = repository.head(scenario)
        if head is None:
            raise NotFound(f"The scenario {scenario} has no release yet.", "Send it a request first.")
        return head

    async def adapters(self, request: Request) -> Response:
        names: list[JSON] = list(await asyncio.to_thread(adapter_names))
        return json_response({"adapters": names})

    async def releases(self, request: Request) -> Response:
        """The catalogue, oldest first."""
        scenario = known_scenario(scenario_of(request), self._services)
        return json_response({"releases": await asyncio.to_thread(self._catalogue, scenario)})

    async def versions(self, request: Request) -> Response:
        """The same as reef-client asks for it: each with the `version` by which its files can be had."""
        scenario = known_scenario(scenario_of(request), self._services)
        return json_response({"versions": await asyncio.to_thread(self._catalogue, scenario)})

    def _catalogue(self, scenario: str) -> list[JSON]:
        chain = self._services.repository.chain(scenario)
        current = chain[0].id if chain else None
        return [
            {**release_view(release, current), "version": release.content_id, "artifact_version": release.content_id}
            for release in reversed(chain)
        ]

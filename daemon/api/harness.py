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


class HarnessRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [
            Route("/reef/harness", self.show, methods=["GET"]),
            Route("/reef/harness/adapters", self.adapters, methods=["GET"]),
            Route("/reef/harness/releases", self.releases, methods=["GET"]),
        ]

    async def show(self, request: Request) -> Response:
        """The head's files, or those of `release_id`."""
        scenario = known_scenario(scenario_of(request), self._services)
        wanted, repository = request.query_params.get("release_id"), self._services.repository
        if wanted:
            release = await asyncio.to_thread(repository.release, scenario, wanted)
        else:
            head = await asyncio.to_thread(repository.head, scenario)
            if head is None:
                raise NotFound(f"The scenario {scenario} has no release yet.", "Send it a request first.")
            release = head
        summary = release.manifest.evaluation
        files: JSONObject = dict(release.tree.files)
        return json_response(
            {
                "release_id": release.id,
                "content_id": release.tree.content_id,
                "parent_release_id": release.manifest.parent_release_id,
                "files": files,
                "evaluation": summary.model_dump(mode="json") if summary is not None else None,
            }
        )

    async def adapters(self, request: Request) -> Response:
        names: list[JSON] = list(await asyncio.to_thread(adapter_names))
        return json_response({"adapters": names})

    async def releases(self, request: Request) -> Response:
        """The catalogue, oldest first."""
        scenario = known_scenario(scenario_of(request), self._services)
        chain = await asyncio.to_thread(self._services.repository.chain, scenario)
        current = chain[0].id if chain else None
        return json_response({"releases": [release_view(release, current) for release in reversed(chain)]})

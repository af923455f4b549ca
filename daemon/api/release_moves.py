"""What changes which release serves: promote, rollback, undo. All need the owner's token and take the head that the caller saw."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner, scenario_in_path
from daemon.api.views import release_view
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import required_text, text
from daemon.services import Services
from daemon.versions.release import Release


class ReleaseMoveRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}"
        return [
            Route(f"{base}/promote", self.promote, methods=["POST"]),
            Route(f"{base}/rollback", self.rollback, methods=["POST"]),
            Route(f"{base}/undo", self.undo, methods=["POST"]),
        ]

    async def promote(self, request: Request) -> Response:
        who = require_owner(request, "Promoting a release")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        target, seen = required_text(body, "release_id", limit=20), text(body, "expected_head")
        return self._moved(scenario, await self._services.publisher.promote(scenario, target, seen, who))

    async def rollback(self, request: Request) -> Response:
        who = require_owner(request, "Rolling back")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        target, seen = required_text(body, "release_id", limit=20), text(body, "expected_head")
        return self._moved(scenario, await self._services.publisher.rollback(scenario, target, seen, who))

    async def undo(self, request: Request) -> Response:
        who = require_owner(request, "Undoing an operation")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        return self._moved(scenario, await self._services.publisher.undo(scenario, text(body, "expected_head"), who))

    def _moved(self, scenario: str, release: Release) -> Response:
        head = self._services.serving.head(scenario)
        return json_response(release_view(release, head.release_id if head is not None else None))

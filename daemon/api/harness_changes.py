"""What an agent that has one release installed would get by an update: the notice that it shows at its start."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import known_scenario
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import scenario_of
from daemon.harness_tree import HarnessTree
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.change import changed_to
from daemon.versions.names import HEAD, named
from daemon.versions.release import Release
from daemon.versions.words import change_parts, evaluation_parts, line_of


class HarnessChangeRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/harness/changes", self.changes, methods=["GET"])]

    async def changes(self, request: Request) -> Response:
        """From the release `since`, or from nothing, to the head, in one line; and what the agent's settings should say of the model."""
        scenario = known_scenario(scenario_of(request), self._services)
        found = await asyncio.to_thread(self._changes, scenario, request.query_params.get("since", ""))
        model = self._services.engine.model
        return json_response({**found, "model": model.id, "context_tokens": model.context_tokens})

    def _changes(self, scenario: str, since: str) -> JSONObject:
        """Raises `NotFound`: the scenario has no such release."""
        repository = self._services.repository
        head = named(repository, scenario, HEAD)
        installed = named(repository, scenario, since) if since else None
        content = installed.tree.content_id if installed is not None else HarnessTree().content_id
        held: list[JSON] = [release.id for release in repository.held(scenario)]
        return {
            "scenario": scenario,
            "since": since or None,
            "head": head.id,
            "line": _line(installed, head),
            "harness_changed": head.tree.content_id != content,
            "held": held,
        }


def _line(installed: Release | None, head: Release) -> str:
    """`+2 rules −1 skill · held-out 61→68 of 80 (+9 −2, p .03)`; empty where the head is installed.

    An evaluation compares a release with the one before it: it is told only where that is the one that is installed.
    """
    if installed is None:
        return head.manifest.change
    if installed.id == head.id:
        return ""
    parts = change_parts(changed_to(installed, head))
    summary = head.manifest.evaluation
    if summary is not None and head.manifest.parent_release_id == installed.id:
        parts = (*parts, *evaluation_parts(summary))
    return line_of(parts)

"""Releases: list, show, compare, and ask where a line comes from."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import query_flag, query_integer, scenario_in_path
from daemon.api.release_views import detail_view, diff_view, listed_view, why_view
from daemon.errors import BadRequest, NotFound
from daemon.evolution.provenance import behind_line
from daemon.experience.runs import Run
from daemon.experience.sources import Source, sources
from daemon.gateway.errors import json_response
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.diff import diff
from daemon.versions.history import History
from daemon.versions.listing import listed, standing
from daemon.versions.manifest import RELEASE_ID_PATTERN
from daemon.versions.mutations import MutationFacts
from daemon.versions.names import named
from daemon.versions.release import Release
from daemon.versions.tasks_compared import compare_tasks
from daemon.versions.why import Event, why

_LONGEST_TEXT = 4000


class ReleaseRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._history = History(services.repository)

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}"
        return [
            Route(f"{base}/releases", self.list_all, methods=["GET"]),
            Route(f"{base}/releases/{{release}}", self.show, methods=["GET"]),
            Route(f"{base}/releases/{{before}}/diff/{{after}}", self.diff, methods=["GET"]),
            Route(f"{base}/why", self.why, methods=["GET"]),
        ]

    async def list_all(self, request: Request) -> Response:
        """Newest first: the chain, and what is held, was rejected or was promoted. `next` is the `before` of the next page."""
        scenario, limit = scenario_in_path(request, self._services), query_integer(request, "limit", 50, 1, 1000)
        before = _before(request)
        found, more = await asyncio.to_thread(listed, self._services.repository, scenario, limit, before)
        releases: list[JSON] = [listed_view(one) for one in found]
        return json_response({"releases": releases, "next": found[-1].release.id if more else None})

    async def show(self, request: Request) -> Response:
        """Any release: `r14`, `head`, or `head~1` for the one before it."""
        scenario = scenario_in_path(request, self._services)
        return json_response(await asyncio.to_thread(self._detail, scenario, str(request.path_params["release"])))

    async def diff(self, request: Request) -> Response:
        """Each side is named as `show` takes it. With `replies` what both replied to each task is there too."""
        scenario, replies = scenario_in_path(request, self._services), query_flag(request, "replies")
        sides = str(request.path_params["before"]), str(request.path_params["after"])
        return json_response(await asyncio.to_thread(self._diff, scenario, sides, replies))

    async def why(self, request: Request) -> Response:
        """Which release brought the line `text`, or `lora`, and from which sessions."""
        scenario, text = scenario_in_path(request, self._services), request.query_params.get("text", "")
        if not text.strip() or len(text) > _LONGEST_TEXT:
            raise BadRequest(f"'text' must be the words of a line, at most {_LONGEST_TEXT} characters, or lora.", param="text")
        return json_response(await asyncio.to_thread(self._why, scenario, text))

    def _detail(self, scenario: str, name: str) -> JSONObject:
        services = self._services
        release = named(services.repository, scenario, name)
        [one] = standing(services.repository, scenario, [release])
        later = [other.id for other in services.repository.chain(scenario) if other.manifest.restores == release.id]
        said = services.repository.reader.mutations(release.commit_id)
        return detail_view(one, sources(services.reader, scenario, release.manifest.records), self._run(release), later[::-1], said)

    def _run(self, release: Release) -> Run | None:
        run_id = release.manifest.run_id
        if run_id is None:
            return None
        try:
            return self._services.runs.get(run_id)
        except NotFound:  # runs are not kept for ever, releases are
            return None

    def _diff(self, scenario: str, sides: tuple[str, str], replies: bool) -> JSONObject:
        repository = self._services.repository
        before, after = (named(repository, scenario, side) for side in sides)
        return diff_view(diff(before, after, repository.weights), compare_tasks(repository, before, after), replies=replies)

    def _why(self, scenario: str, text: str) -> JSONObject:
        answer = why(self._services.repository, self._history, scenario, text)
        return why_view(answer, [(self._sources(scenario, event), self._mutation(event)) for event in answer.events])

    def _mutation(self, event: Event) -> MutationFacts | None:
        """The change that the release says brought or removed the line."""
        release = event.release
        said = self._services.repository.reader.mutations(release.commit_id)
        return behind_line(said.mutations, release.tree, event.path, event.line) if said is not None else None

    def _sources(self, scenario: str, event: Event) -> list[Source]:
        receipts = (event.source,) if event.source else event.release.manifest.records
        return sources(self._services.reader, scenario, receipts)[0] if receipts else []


def _before(request: Request) -> int | None:
    text = request.query_params.get("before")
    if not text:
        return None
    if not re.fullmatch(RELEASE_ID_PATTERN, text):
        raise BadRequest(f"'before' must be the id of a release, such as r14, not {text[:40]!r}.", param="before")
    return int(text[1:])

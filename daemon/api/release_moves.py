"""What an owner does with releases: promote, rollback and undo, which take the head that the caller saw; and pins."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner, scenario_in_path
from daemon.api.release_views import plain
from daemon.api.runs import run_view
from daemon.api.views import release_view
from daemon.errors import Conflict
from daemon.evolution.consent import Unconfirmed
from daemon.gateway.body import read_json
from daemon.gateway.errors import error_object, json_response, shape_of
from daemon.gateway.wires.fields import required_text, text, texts
from daemon.harness.finding import finding_view
from daemon.observing.request_facts import note_error
from daemon.records import JSON, JSONObject
from daemon.services import Services
from daemon.versions.operations import aged
from daemon.versions.pins import pinned
from daemon.versions.release import Release

_MOST_CONFIRMED = 10_000


class ReleaseMoveRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}"
        return [
            Route(f"{base}/promote", self.promote, methods=["POST"]),
            Route(f"{base}/rollback", self.rollback, methods=["POST"]),
            Route(f"{base}/undo", self.undo, methods=["POST"]),
            Route(f"{base}/releases/{{release}}/dismiss", self.dismiss, methods=["POST"]),
            Route(f"{base}/pins", self.pins, methods=["GET"]),
            Route(f"{base}/pins", self.pin, methods=["POST"]),
            Route(f"{base}/pins/{{release}}", self.unpin, methods=["DELETE"]),
        ]

    async def promote(self, request: Request) -> Response:
        """200: it serves. 202: something else serves than what it was evaluated against, and a run evaluates it on that.

        409 with `findings` and `files`: the guard found what a person must say yes to, by the ids in `confirmed`.
        """
        who = require_owner(request, "Promoting a release")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        target, seen = required_text(body, "release_id", limit=20), text(body, "expected_head")
        confirmed = frozenset(texts(body, "confirmed", most=_MOST_CONFIRMED))
        replay = await asyncio.to_thread(aged, self._services.repository, scenario, target, expected_head=seen)
        try:
            if replay is None:
                return self._moved(scenario, await self._services.publisher.promote(scenario, target, seen, who, confirmed))
            run = await self._services.runner.evaluate_again(replay, who, confirmed)
        except Unconfirmed as error:
            return _ask(error, request.url.path)
        told: JSONObject = {"release_id": target, "compared_with": replay.compared.id, "head": replay.head.id, "sentence": replay.sentence}
        return json_response({**told, "run": run_view(run)}, 202)

    async def rollback(self, request: Request) -> Response:
        who = require_owner(request, "Rolling back")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        target, seen = required_text(body, "release_id", limit=20), text(body, "expected_head")
        return self._moved(scenario, await self._services.publisher.rollback(scenario, target, seen, who))

    async def undo(self, request: Request) -> Response:
        who = require_owner(request, "Undoing an operation")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        return self._moved(scenario, await self._services.publisher.undo(scenario, text(body, "expected_head"), who))

    async def dismiss(self, request: Request) -> Response:
        """A held candidate is given up for good: its trace stays, its weights go."""
        who = require_owner(request, "Dismissing a candidate")
        scenario, name = scenario_in_path(request, self._services), str(request.path_params["release"])
        run = self._services.runner.active
        if run is not None and run.scenario == scenario and run.config.get("promotes") == name:
            raise Conflict(f"The run {run.id} evaluates {name} now.", f"End it first: reef runs {run.id} --cancel")
        return self._moved(scenario, await self._services.publisher.dismiss(scenario, name, who))

    async def pins(self, request: Request) -> Response:
        return json_response({"pins": await self._pinned(scenario_in_path(request, self._services))})

    async def pin(self, request: Request) -> Response:
        """`changed` is false where it was pinned before."""
        who = require_owner(request, "Pinning a release")
        scenario, target = scenario_in_path(request, self._services), required_text(await read_json(request), "release_id", limit=20)
        release_id, changed = await self._services.publisher.pin(scenario, target, who)
        return json_response({"release_id": release_id, "pinned": True, "changed": changed, "pins": await self._pinned(scenario)})

    async def unpin(self, request: Request) -> Response:
        """`changed` is false where it was not pinned."""
        who = require_owner(request, "Taking a pin off")
        scenario, target = scenario_in_path(request, self._services), str(request.path_params["release"])
        release_id, changed = await self._services.publisher.unpin(scenario, target, who)
        return json_response({"release_id": release_id, "pinned": False, "changed": changed, "pins": await self._pinned(scenario)})

    async def _pinned(self, scenario: str) -> list[JSON]:
        """Release ids, newest first."""
        found = await asyncio.to_thread(pinned, self._services.repository, scenario)
        return [release_id for release_id in sorted(found, key=lambda one: -int(one[1:]))]

    def _moved(self, scenario: str, release: Release) -> Response:
        head = self._services.serving.head(scenario)
        return json_response(release_view(release, head.release_id if head is not None else None))


def _ask(error: Unconfirmed, path: str) -> Response:
    note_error(error)
    findings: list[JSON] = [finding_view(one) for one in error.findings]
    told: JSONObject = {"release_id": error.candidate, "head": error.head, "findings": findings, "files": plain(list(error.files))}
    return json_response({**error_object(error, shape_of(path)), **told}, error.status)

"""Runs: start a recipe now, list, show, follow by server-sent events, cancel."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.api.common import query_integer, require_owner, scenario_in_path
from daemon.errors import BadRequest, NotFound
from daemon.evolution.discovery import known_recipes
from daemon.experience.runs import Run, RunStatus
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.sse import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, data_frame
from daemon.gateway.wires.fields import an_object, boolean, check_characters, integer, text
from daemon.records import JSON, JSONObject
from daemon.services import Services

_PAGE = 500
_MAX_CURSOR = (1 << 63) - 1
_CURSOR = re.compile(r"[0-9]{1,19}")
_TIME = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?")


class RunRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}/runs"
        return [
            Route(base, self.start, methods=["POST"]),
            Route(base, self.list, methods=["GET"]),
            Route(f"{base}/{{run}}", self.show, methods=["GET"]),
            Route(f"{base}/{{run}}", self.cancel, methods=["DELETE"]),
            Route(f"{base}/{{run}}/events", self.events, methods=["GET"]),
            Route("/reef/recipes", self.recipes, methods=["GET"]),
        ]

    async def start(self, request: Request) -> Response:
        """`recipe`, `settings`, `dry_run` and `seed` are optional. 201: it runs now."""
        who = require_owner(request, "Starting a run")
        scenario, body = scenario_in_path(request, self._services), await read_json(request)
        for name in ("recipe", "settings"):
            check_characters(body, name)
        run = await self._services.runner.start(
            scenario,
            recipe=text(body, "recipe", limit=500) or None,
            settings=an_object(body, "settings"),
            trigger=who,
            dry_run=boolean(body, "dry_run"),
            seed=integer(body, "seed", 0, 2**31 - 1),
        )
        return json_response(run_view(run), 201)

    async def list(self, request: Request) -> Response:
        """`next` is the `before` of the next page; null at the end."""
        scenario, limit = scenario_in_path(request, self._services), query_integer(request, "limit", 20, 1, 200)
        before = _time(request, "before")
        found = await asyncio.to_thread(self._services.runs.list, scenario, limit, before)
        runs: list[JSON] = [run_view(run) for run in found]
        return json_response({"runs": runs, "next": found[-1].started_at if len(found) == limit else None})

    async def recipes(self, request: Request) -> Response:
        """Which recipes are installed; others are named as `package.module:Class`."""
        known = await asyncio.to_thread(known_recipes)
        recipes: list[JSON] = [{"name": name, "path": path} for name, path in sorted(known.items())]
        return json_response({"recipes": recipes})

    async def show(self, request: Request) -> Response:
        return json_response(run_view(await self._find(request)))

    async def cancel(self, request: Request) -> Response:
        require_owner(request, "Cancelling a run")
        run = await self._find(request)
        return json_response(run_view(await self._services.runner.cancel(run.id)))

    async def events(self, request: Request) -> ASGIApp:
        """From after `after`, or after `Last-Event-ID`, to the end of the run; `id` is the cursor."""
        run = await self._find(request)
        cursor = query_integer(request, "after", 0, 0, _MAX_CURSOR)
        resumed = request.headers.get("last-event-id", "")
        if resumed:
            if not _CURSOR.fullmatch(resumed):
                raise BadRequest("Last-Event-ID must be the id of an event of this run.")
            cursor = max(cursor, min(int(resumed), _MAX_CURSOR))
        return EventStream(_RunFrames(self._services, run.id, cursor))

    async def _find(self, request: Request) -> Run:
        scenario, run_id = scenario_in_path(request, self._services), str(request.path_params["run"])
        run = await asyncio.to_thread(self._services.runs.get, run_id)
        if run.scenario != scenario:
            raise NotFound(f"There is no run {run_id[:80]} in scenario {scenario}.", f"It belongs to {run.scenario}.")
        return run


class _RunFrames(Frames):
    def __init__(self, services: Services, run_id: str, cursor: int) -> None:
        self._services = services
        self._run_id = run_id
        self._cursor = cursor
        self._gone = False

    def abort(self) -> None:
        self._gone = True

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Ends when the run has ended and all of it was told, the client is gone, or the daemon stops."""
        services = self._services
        while not self._gone and not services.stopping.is_set():
            # The state first: what came before the end is then in the page that follows.
            ended = (await asyncio.to_thread(services.runs.get, self._run_id)).status is not RunStatus.RUNNING
            page = await asyncio.to_thread(services.runs.events, self._run_id, self._cursor, _PAGE)
            for event in page:
                self._cursor = event.seq
                yield f"id: {event.seq}\n".encode() + data_frame({"at": event.at, **event.event})
            if page:
                continue
            if ended:
                return
            yield KEEP_ALIVE
            await services.runner.wait_event(self._run_id, KEEP_ALIVE_S)
            await asyncio.sleep(0.05)  # several events that come together go out together


def _time(request: Request, name: str) -> float | None:
    """Seconds since the epoch in the query string. Raises `BadRequest`."""
    text = request.query_params.get(name)
    if not text:
        return None
    if not _TIME.fullmatch(text):
        raise BadRequest(f"'{name}' must be seconds since the epoch, not {text[:40]!r}.", "Pass the `next` of the page before.", param=name)
    return float(text)


def run_view(run: Run) -> JSONObject:
    return {
        "run_id": run.id,
        "id": run.id,
        "scenario": run.scenario,
        "recipe": run.recipe,
        "status": run.status.value,
        "phase": run.phase,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "verdict": run.verdict,
        "sentence": run.sentence,
        "release_id": run.release_id,
        "trigger": run.trigger,
        "config": run.config,
        "error": run.error,
    }

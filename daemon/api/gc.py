"""POST /reef/gc: make room in the home, or say what could go."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner
from daemon.collecting import Collected, make_room, note
from daemon.errors import BadRequest
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.services import Services


class CollectRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/gc", self.collect, methods=["POST"])]

    async def collect(self, request: Request) -> Response:
        """With `dry_run` nothing goes. No release is published meanwhile."""
        who = require_owner(request, "Making room")
        dry_run = (await read_json(request)).get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise BadRequest("'dry_run' must be true or false.", param="dry_run")
        services = self._services
        async with services.publisher.exclusive():
            heads = {name: snapshot.release_id for name, snapshot in services.serving.heads.items()}
            in_use = services.serving.loras_in_use()
            done = await asyncio.to_thread(self._make_room, heads, in_use, who, dry_run)
            services.releases.forget()  # what was read of a release may name a file that is gone
        return json_response(done.view())

    def _make_room(self, heads: dict[str, str], in_use: set[str], who: str, dry_run: bool) -> Collected:
        services = self._services
        runs = services.runs.list(limit=1_000_000)
        done = make_room(services.home, services.repository, services.config, runs, in_use, dry_run=dry_run)
        if not dry_run:
            note(services.log, heads, done, who)
        return done

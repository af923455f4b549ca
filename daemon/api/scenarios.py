"""Scenarios: list, create, change, archive, what their recipe takes, and their operation log."""

from __future__ import annotations

import asyncio
from typing import get_args

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon import json_text
from daemon.api.common import known_scenario, query_integer, query_optional_integer, require_owner, scenario_in_path
from daemon.config import LearnMode, ReefConfig
from daemon.errors import BadRequest, Conflict
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import bad, required_text, text
from daemon.learning_mode import set_mode
from daemon.recipe_check import takes_instructions
from daemon.records import DEFAULT_SCENARIO, JSON, JSONObject
from daemon.services import Services
from daemon.serving.scenarios import check_scenario_name

_MAX_REMEMBERED = 64


class ScenarioRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._asking = asyncio.Lock()
        self._instructed: dict[str, bool] = {}

    def routes(self) -> list[Route]:
        base = "/reef/scenarios/{scenario}"
        return [
            Route("/reef/scenarios", self.list, methods=["GET"]),
            Route("/reef/scenarios", self.create, methods=["POST"]),
            Route(base, self.show, methods=["GET"]),
            Route(base, self.archive, methods=["DELETE"]),
            Route(f"{base}/update", self.update, methods=["POST"]),
            Route(f"{base}/contract", self.contract, methods=["GET"]),
            Route(f"{base}/commits", self.commits, methods=["GET"]),
        ]

    async def list(self, request: Request) -> Response:
        found: list[JSON] = list(await asyncio.to_thread(lambda: [self._view(name) for name in sorted(self._services.serving.heads)]))
        return json_response({"scenarios": found})

    async def show(self, request: Request) -> Response:
        return json_response(await asyncio.to_thread(self._view, scenario_in_path(request, self._services)))

    async def create(self, request: Request) -> Response:
        """201 for a new one, 200 if it stands."""
        body = await read_json(request)
        name, release, model = required_text(body, "name", limit=100), text(body, "release_id"), text(body, "model")
        check_scenario_name(name)
        self._check_model(model)
        head = self._services.serving.head(name)
        if release and (head is None or head.release_id != release):
            stands = head.release_id if head is not None else "none"
            raise Conflict(
                f"{name} cannot start on {release}: its head is {stands}.",
                "Leave out release_id.",
            )
        is_new = await self._services.scenarios.ensure(name)
        return json_response(await asyncio.to_thread(self._view, name), 201 if is_new else 200)

    async def update(self, request: Request) -> Response:
        """How it learns from now on. A daemon serves one model: a scenario can only name that one. Answers as `contract` does."""
        who = require_owner(request, "Changing how a scenario learns")
        name = scenario_in_path(request, self._services)
        body = await read_json(request)
        mode = text(body, "mode")
        self._check_model(text(body, "model"))
        if mode is not None and mode not in get_args(LearnMode):
            raise bad("mode", " or ".join(get_args(LearnMode)), mode)
        if mode is not None:
            await set_mode(self._services, name, mode, who)
        return json_response(await self._contract(name))

    def _check_model(self, model: str | None) -> None:
        """Raises `BadRequest` for one that is not served."""
        served = self._services.engine.model.id
        if model and model != served:
            raise BadRequest(
                f"The model {model!r} is not served here.", f"Served: {served}. Another for all scenarios: reef models use", param="model"
            )

    async def archive(self, request: Request) -> Response:
        """It serves no more; its experience and releases stay."""
        require_owner(request, "Archiving a scenario")
        name = scenario_in_path(request, self._services)
        if name == DEFAULT_SCENARIO:
            raise BadRequest("The default scenario cannot be archived.", "Plain clients need it.")
        await asyncio.wrap_future(self._services.store.archive_scenario(name))
        self._services.serving.remove(name)
        return json_response({"name": name, "archived": True})

    async def contract(self, request: Request) -> Response:
        """What this scenario's recipe is, and what counts as feedback for it."""
        return json_response(await self._contract(scenario_in_path(request, self._services)))

    async def _contract(self, name: str) -> JSONObject:
        config = self._services.config.for_scenario(name)
        instructed = await self._takes_instructions(config.reef)
        return {
            "scenario": name,
            "model": self._services.engine.model.id,
            "recipe": config.reef.recipe,
            "settings": dict(config.reef.settings),
            "mode": config.learn.mode,
            "takes": {
                "score": "a finite number",
                "feedback": "a text, or an object with correction and note",
                "references": "receipts",
                "session": "a session's id, instead of receipts",
                "instructions": instructed,
            },
        }

    async def _takes_instructions(self, reef: ReefConfig) -> bool:
        """Asked of each recipe once: a process is started for it, and any client may ask."""
        key = json_text.canonical({"recipe": reef.recipe, "settings": reef.settings})
        async with self._asking:
            if key not in self._instructed:
                if len(self._instructed) == _MAX_REMEMBERED:
                    self._instructed.clear()
                self._instructed[key] = await takes_instructions(reef, self._services.loaded.search_paths)
            return self._instructed[key]

    async def commits(self, request: Request) -> Response:
        """The operation log, newest first; `next` is the `before` of the next page."""
        name = scenario_in_path(request, self._services)
        limit, before = query_integer(request, "limit", 50, 1, 200), query_optional_integer(request, "before")
        found = await asyncio.to_thread(self._services.log.list, name, limit, before)
        rows: list[JSON] = [
            {
                "id": row.id,
                "at": row.at,
                "operation": row.operation,
                "before": row.before,
                "after": row.after,
                "who": row.who,
                "detail": row.detail,
            }
            for row in found
        ]
        return json_response({"commits": rows, "next": found[-1].id if len(found) == limit else None})

    def _view(self, name: str) -> JSONObject:
        known_scenario(name, self._services)
        head, counts = self._services.serving.heads[name], self._services.reader.counts(name)
        return {
            "name": name,
            "release_id": head.release_id,
            "content_id": head.content_id,
            "model": self._services.engine.model.id,
            "sessions": counts.sessions,
            "records": counts.inferences,
            "reports": counts.reports,
            "imported": counts.imported,
        }

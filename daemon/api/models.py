"""Models: which there are here, and which one serves. Changing it needs the owner's token."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.common import require_owner
from daemon.api.views import release_view
from daemon.engine.base import ModelInfo
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.wires.fields import required_text
from daemon.model_files import StoredModel, describe, model_view, stored_models
from daemon.model_switch import ModelSwitch
from daemon.records import JSON, JSONObject
from daemon.services import Services


class ModelRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services
        self._switch = ModelSwitch(services)

    def routes(self) -> list[Route]:
        return [
            Route("/reef/models", self.list_all, methods=["GET"]),
            Route("/reef/models/use", self.use, methods=["POST"]),
        ]

    async def list_all(self, request: Request) -> Response:
        """Every model on this machine; `serves` marks the one that does, with the window that it is served with."""
        served = self._services.engine.model
        models: list[JSON] = list(await asyncio.to_thread(self._found, served))
        return json_response({"serves": served.id, "loading": self._switch.loading or None, "models": models})

    async def use(self, request: Request) -> Response:
        """`name`: as `/reef/models` has it, or the absolute path of a .gguf file. Answers when the model serves."""
        who = require_owner(request, "Changing the model")
        name = required_text(await read_json(request), "name", limit=4096)
        done = await self._switch.use(name, who)
        releases: list[JSON] = [{"scenario": release.manifest.scenario, **release_view(release, release.id)} for release in done.releases]
        left_out: list[JSON] = list(done.left_out)
        return json_response(
            {
                "model": done.model,
                "name": done.name,
                "before": done.before,
                "context_tokens": done.context_tokens,
                "releases": releases,
                "warnings": left_out,
            }
        )

    def _found(self, served: ModelInfo) -> list[JSONObject]:
        """Those of the home, and the one that serves from elsewhere. Reads their headers, so call it in a thread."""
        found = stored_models(self._services.home)
        place = served.path.resolve() if served.path is not None else None
        if place is not None and all(one.path.resolve() != place for one in found):
            found.append(describe(str(place), place))
        return [_view(one, served, serves=one.path.resolve() == place) for one in found]


def _view(model: StoredModel, served: ModelInfo, *, serves: bool) -> JSONObject:
    return {**model_view(model), "serves": serves, "served_tokens": served.context_tokens if serves else None}

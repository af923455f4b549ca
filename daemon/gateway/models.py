"""GET /v1/models: the served model with its window, and the releases that can be pinned as MODEL@release."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.engine.base import ModelInfo
from daemon.errors import NotFound
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import Gateway
from daemon.records import JSON, JSONObject


class ModelRoutes:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def routes(self) -> list[Route]:
        routes: list[Route] = []
        for prefix in ("", "/reef/scenarios/{scenario}"):
            routes.append(Route(f"{prefix}/v1/models", self.list, methods=["GET"]))
            routes.append(Route(f"{prefix}/v1/models/{{model:path}}", self.show, methods=["GET"]))
        return routes

    async def list(self, request: Request) -> Response:
        names = await self._gateway.model_names(request)
        data: list[JSON] = [_entry(self._gateway.model, name) for name in names]
        return json_response({"object": "list", "data": data})

    async def show(self, request: Request) -> Response:
        wanted = str(request.path_params["model"])
        names = await self._gateway.model_names(request)
        if wanted not in names:
            raise NotFound(f"The model {wanted!r} is not served here.", f"Served: {', '.join(names[:8])}.", param="model")
        return json_response(_entry(self._gateway.model, wanted))


def _entry(model: ModelInfo, name: str) -> JSONObject:
    window = model.context_tokens
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "reef",
        # There is no agreed field for the window: these are the ones that clients read.
        "context_window": window,
        "context_length": window,
        "max_model_len": window,
    }

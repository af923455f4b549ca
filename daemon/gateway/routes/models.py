"""GET /v1/models: the served model with its window, and the releases that can be pinned as MODEL@release."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.engine.base import Capability
from daemon.gateway.admission import ModelNotFound
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
        if _for_anthropic(request):
            listed: list[JSON] = [self._anthropic_entry(name) for name in names]
            return json_response({"data": listed, "has_more": False, "first_id": names[0], "last_id": names[-1]})
        data: list[JSON] = [self._entry(name) for name in names]
        return json_response({"object": "list", "data": data})

    async def show(self, request: Request) -> Response:
        wanted = str(request.path_params["model"])
        names = await self._gateway.model_names(request)
        if wanted not in names:
            raise ModelNotFound(f"The model {wanted!r} is not served here.", f"Served: {', '.join(names[:8])}.", param="model")
        return json_response(self._anthropic_entry(wanted) if _for_anthropic(request) else self._entry(wanted))

    def _anthropic_entry(self, name: str) -> JSONObject:
        window = self._gateway.model.context_tokens
        return {
            "type": "model",
            "id": name,
            "display_name": name,
            "created_at": "1970-01-01T00:00:00Z",
            "max_input_tokens": window,
            "max_tokens": window,
            "lifecycle": "active",
        }

    def _entry(self, name: str) -> JSONObject:
        window = self._gateway.model.context_tokens
        capabilities: list[JSON] = list(abilities(self._gateway.capabilities))
        return {
            "id": name,
            "object": "model",
            "created": 0,
            "owned_by": "reef",
            # There is no agreed field for the window: these are the ones that clients read.
            "context_window": window,
            "context_length": window,
            "max_model_len": window,
            "capabilities": capabilities,
        }


def _for_anthropic(request: Request) -> bool:
    """Its clients send this header with everything, and read another list than OpenAI's."""
    return "anthropic-version" in request.headers


def abilities(capabilities: Capability) -> list[str]:
    """What a client can ask for, in words: conversations with tools always, the rest where the engine declares it."""
    optional = {
        "structure": Capability.STRUCTURE,
        "fill_in_middle": Capability.FILL_IN_MIDDLE,
        "embeddings": Capability.EMBEDDINGS,
        "logprobs": Capability.LOGPROBS,
    }
    return ["chat", "completions", "tools", *(name for name, needed in optional.items() if needed in capabilities)]

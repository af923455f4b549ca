"""What agents and supervisors probe at start: health, and what other local servers answer."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.engine.base import Capability
from daemon.gateway.body import read_json
from daemon.gateway.errors import json_response
from daemon.gateway.gateway import Gateway
from daemon.records import JSON, JSONObject


class ProbeRoutes:
    def __init__(self, gateway: Gateway, version: str) -> None:
        self._gateway = gateway
        self._version = version

    def routes(self) -> list[Route]:
        return [
            Route("/healthz", self.healthz, methods=["GET"]),
            Route("/health", self.health, methods=["GET"]),
            Route("/api/hello", self.hello, methods=["GET"]),
            Route("/api/version", self.version, methods=["GET"]),
            Route("/api/tags", self.tags, methods=["GET"]),
            Route("/api/show", self.show, methods=["POST"]),
        ]

    async def healthz(self, request: Request) -> Response:
        """Answers without a token, so it tells nothing but that the daemon is up, and which version."""
        return json_response({"status": "ok", "version": self._version})

    async def health(self, request: Request) -> Response:
        ready = self._gateway.engine_state == "ready"
        return json_response({"status": "ok" if ready else self._gateway.engine_state}, 200 if ready else 503)

    async def hello(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def version(self, request: Request) -> Response:
        return json_response({"version": self._version})

    async def tags(self, request: Request) -> Response:
        model = self._gateway.model
        entry: JSONObject = {"name": model.id, "model": model.id, "size": model.size_bytes, "digest": model.sha256}
        return json_response({"models": [{**entry, "details": self._details()}]})

    async def show(self, request: Request) -> Response:
        await read_json(request)
        model = self._gateway.model
        facts: JSONObject = {
            "general.architecture": model.architecture,
            "general.parameter_count": model.parameters,
            f"{model.architecture or 'model'}.context_length": model.context_tokens,
        }
        known = self._gateway.capabilities
        able: list[JSON] = ["completion", "tools"]  # in the words of the server whose route this is
        able += ["insert"] if Capability.FILL_IN_MIDDLE in known else []
        able += ["embedding"] if Capability.EMBEDDINGS in known else []
        return json_response({"details": self._details(), "model_info": facts, "capabilities": able})

    def _details(self) -> JSONObject:
        model = self._gateway.model
        return {"format": "gguf", "family": model.architecture, "quantization_level": model.quantisation}

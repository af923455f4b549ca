"""GET /openapi.json: what this daemon serves, for machines."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.gateway.errors import json_bytes
from daemon.openapi.document import document
from daemon.services import Services


class OpenAPIRoutes:
    def __init__(self, services: Services) -> None:
        self._text = json_bytes(document(services.version))

    def routes(self) -> list[Route]:
        return [Route("/openapi.json", self.show, methods=["GET"])]

    async def show(self, request: Request) -> Response:
        return Response(self._text, media_type="application/json")

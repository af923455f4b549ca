"""The ASGI app: routes, error shapes, and the door in front of them."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.api import routes as api_routes
from daemon.errors import ReefError
from daemon.gateway.direct import Direct
from daemon.gateway.errors import on_bug, on_http_error, on_reef_error
from daemon.gateway.gateway import Gateway
from daemon.gateway.observing import Observing
from daemon.gateway.routes.chat import ChatRoutes
from daemon.gateway.routes.completions import CompletionRoutes
from daemon.gateway.routes.embeddings import EmbeddingRoutes
from daemon.gateway.routes.messages import MessageRoutes
from daemon.gateway.routes.models import ModelRoutes
from daemon.gateway.routes.probes import ProbeRoutes
from daemon.gateway.routes.responses import ResponseRoutes
from daemon.gateway.security import Names, Security
from daemon.services import Services


def build_app(services: Services, gateway: Gateway, names: Names) -> ASGIApp:
    """Everything that the daemon serves."""
    routes = all_routes(services, gateway)
    app = Starlette(
        routes=routes,
        exception_handlers={ReefError: on_reef_error, HTTPException: on_http_error, Exception: on_bug},
    )
    return Observing(Security(Direct(app, routes), tokens=services.tokens, names=names), routes, services.measures)


def all_routes(services: Services, gateway: Gateway) -> list[Route]:
    return [
        *ChatRoutes(gateway).routes(),
        *ResponseRoutes(gateway).routes(),
        *MessageRoutes(gateway).routes(),
        *CompletionRoutes(gateway).routes(),
        *EmbeddingRoutes(gateway).routes(),
        *ModelRoutes(gateway).routes(),
        *ProbeRoutes(gateway, services.version).routes(),
        *api_routes.all_routes(services),
    ]

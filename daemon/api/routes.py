"""All routes below /reef; one file a resource."""

from __future__ import annotations

from starlette.routing import Route

from daemon.api.status import StatusRoutes
from daemon.services import Services


def all_routes(services: Services) -> list[Route]:
    return [*StatusRoutes(services).routes()]

"""The routes that agents ask all the time, reached without a walk through all the others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.errors import ReefError
from daemon.gateway.errors import on_bug, on_reef_error
from daemon.observing import request_facts

Endpoint = Callable[[Request], Awaitable[ASGIApp]]


class Direct:
    """ASGI middleware in front of the app: answers POST to fixed paths as the app would, and leaves the rest to it."""

    def __init__(self, app: ASGIApp, routes: Iterable[Route]) -> None:
        self._app = app
        self._endpoints: dict[str, Endpoint] = {
            route.path: route.endpoint for route in routes if route.methods == {"POST"} and "{" not in route.path
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get(scope["path"]) if scope.get("method") == "POST" else None
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        scope["endpoint"], scope["path_params"] = endpoint, {}
        request = Request(scope, receive, send)
        try:
            await (await endpoint(request))(scope, receive, send)
        except Exception as error:  # as Starlette does: the top of a request
            facts = request_facts.current()
            if facts is not None and facts.status:  # the answer has begun
                raise
            found = await (on_reef_error if isinstance(error, ReefError) else on_bug)(request, error)
            await found(scope, receive, send)

"""GET /reef/events: what changes, as it changes, for whoever shows it. Only that something changed is told; what, the other routes say.

Nothing has to tell this route of a change: while somebody listens, it compares counters in memory ten times a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Hashable, Iterator

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp

from daemon.gateway.sse import KEEP_ALIVE, KEEP_ALIVE_S, EventStream, Frames, data_frame
from daemon.services import Services

_LOOK_S = 0.1
"""Between two looks: a kind of change is told at most so often."""


class EventRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/events", self.events, methods=["GET"])]

    async def events(self, request: Request) -> ASGIApp:
        """First `hello`; then `head`, `records`, `runs` and `engine`, each with its scenario (empty: it may be any)."""
        return EventStream(_ChangeFrames(self._services))


class _ChangeFrames(Frames):
    def __init__(self, services: Services) -> None:
        self._services = services
        self._gone = False

    def abort(self) -> None:
        self._gone = True

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Ends when the client is gone, or the daemon stops."""
        services = self._services
        known = dict(facts(services))
        yield data_frame({"type": "hello", "version": services.version})
        said_at = time.monotonic()
        while not self._gone and not services.stopping.is_set():
            await asyncio.sleep(_LOOK_S)
            _sample(services)
            now = dict(facts(services))
            changed = [key for key in now.keys() | known.keys() if now.get(key) != known.get(key)]
            known = now
            for kind, scenario in sorted(changed):
                yield data_frame({"type": kind, "scenario": scenario})
            if changed:
                said_at = time.monotonic()
            elif time.monotonic() - said_at > KEEP_ALIVE_S:
                said_at = time.monotonic()
                yield KEEP_ALIVE


def facts(services: Services) -> Iterator[tuple[tuple[str, str], Hashable]]:
    """Kind and scenario of what may change → something that differs once it has. Reads memory alone; cheap."""
    activity, stats = services.serving.activity, services.engine.stats
    for name, head in services.serving.heads.items():
        written = services.log.written[name]
        yield ("head", name), (head.release_id, written)
        yield ("records", name), (activity.stored[name], written)  # forgetting is an operation too
    loaded = (stats.state, stats.detail, services.engine.model.id, id(services.loaded), len(services.warnings), services.agents.changes)
    yield ("head", ""), loaded
    run = services.runner.active
    yield ("runs", ""), (run.id if run is not None else "", services.runs.written)
    yield (
        ("engine", ""),
        (loaded, stats.active, stats.queued, activity.in_flight, stats.loras, stats.generated_tokens, stats.cache.read_tokens),
    )


def _sample(services: Services) -> None:
    stats = services.engine.stats
    # Another server does not say how far its replies are: their tokens count when they end.
    generated = stats.generated_tokens or services.measures.tokens["completion"]
    read = stats.cache.read_tokens or services.measures.tokens["prompt"] - services.measures.tokens["cached"]
    services.rates.sample(time.monotonic(), generated, read)

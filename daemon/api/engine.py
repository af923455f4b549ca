"""GET /reef/engine: what computes, how fast, for whom, in how much memory. Light enough to be asked every second."""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict

import psutil
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.status import engine_view
from daemon.gateway.errors import json_response
from daemon.observing.rates import INTERVAL_S
from daemon.records import JSON
from daemon.services import Services

_CHILDREN = {
    "daemon.engine.llama.worker": "engine",
    "daemon.engine.llama.confined_main": "templates and grammars",
    "daemon.evolution.run_process": "run",
    "daemon.training.trainer": "trainer",
}
"""What the command line of a child holds → what it is."""


class EngineRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/reef/engine", self.engine, methods=["GET"])]

    async def engine(self, request: Request) -> Response:
        services = self._services
        rates, run = services.rates, services.runner.active
        streams: list[JSON] = [asdict(stream) for stream in services.serving.sessions_in_flight()]
        misses: list[JSON] = [asdict(miss) for miss in reversed(services.measures.misses)]
        return json_response(
            {
                "engine": engine_view(services),
                "uptime_s": round(time.time() - services.started_at, 1),
                "in_flight": services.serving.activity.in_flight,
                "streams": streams,
                "rates": {
                    "interval_s": INTERVAL_S,
                    "generated": [round(rate, 1) for rate in rates.generated],
                    "read": [round(rate, 1) for rate in rates.read],
                },
                "last_misses": misses,
                "learn": {"mode": services.config.learn.mode, "run_id": run.id if run is not None else None},
                "processes": await asyncio.to_thread(_processes),
                "memory_bytes": psutil.virtual_memory().total,
            }
        )


def _processes() -> list[JSON]:
    """The daemon and its children, each with its resident memory; the largest child first."""
    me = psutil.Process()
    found: list[JSON] = [{"what": "daemon", "pid": me.pid, "rss_bytes": me.memory_info().rss}]
    children = []
    for child in me.children(recursive=True):
        try:
            line, memory = " ".join(child.cmdline()), child.memory_info().rss
        except psutil.Error:
            continue  # it has just ended
        what = next((name for module, name in _CHILDREN.items() if module in line), "")
        if what:
            children.append((memory, what, child.pid))
    found += [{"what": what, "pid": pid, "rss_bytes": memory} for memory, what, pid in sorted(children, reverse=True)]
    return found

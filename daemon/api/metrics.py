"""GET /metrics: the state of the daemon as Prometheus text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.engine.base import CACHE_MISSES
from daemon.services import Services

_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/metrics", self.metrics, methods=["GET"])]

    async def metrics(self, request: Request) -> Response:
        text = "".join(await asyncio.to_thread(lambda: list(self._lines())))
        return Response(text, headers={"content-type": _CONTENT_TYPE})

    def _lines(self) -> Iterator[str]:
        services = self._services
        stats, serving = services.engine.stats, services.serving
        yield from _gauge("reef_requests_in_flight", "Live requests that are being answered.", [("", serving.activity.in_flight)])
        yield from _gauge("reef_engine_ready", "Whether the engine can answer.", [("", int(stats.state == "ready"))])
        yield from _gauge("reef_engine_active", "Sequences that are being computed.", [("", stats.active)])
        yield from _gauge("reef_engine_queued", "Requests that wait for a place.", [("", stats.queued)])
        yield from _gauge("reef_engine_restarts_total", "Times that the engine was started again.", [("", stats.restarts)], "counter")
        cache = stats.cache
        yield from _gauge("reef_prompt_tokens_read_total", "Prompt tokens that were computed.", [("", cache.read_tokens)], "counter")
        yield from _gauge("reef_prompt_tokens_reused_total", "Prompt tokens found in the cache.", [("", cache.reused_tokens)], "counter")
        yield from _gauge("reef_prefix_cache_bytes", "Held of conversations that have no place now.", [("", cache.held_bytes)])
        yield from _gauge("reef_prefix_cache_limit_bytes", "The most that is held of them.", [("", cache.limit_bytes)])
        misses = [(f'{{reason="{reason}"}}', cache.misses.get(reason, 0)) for reason in CACHE_MISSES]
        yield from _gauge("reef_prefix_cache_misses_total", "Continued conversations that were read again.", misses, "counter")
        yield from _gauge("reef_run_active", "Whether a run is under way.", [("", int(services.runner.active is not None))])
        counts = {name: services.reader.counts(name) for name in sorted(serving.heads)}
        for metric, text, values in (
            ("reef_records_total", "Stored inferences.", {name: one.inferences for name, one in counts.items()}),
            ("reef_reports_total", "Stored reports.", {name: one.reports for name, one in counts.items()}),
            ("reef_sessions_total", "Sessions.", {name: one.sessions for name, one in counts.items()}),
        ):
            # A scenario's name holds no character that would have to be escaped.
            yield from _gauge(metric, text, [(f'{{scenario="{name}"}}', value) for name, value in values.items()], "counter")


def _gauge(name: str, text: str, values: list[tuple[str, int]], kind: str = "gauge") -> Iterator[str]:
    yield f"# HELP {name} {text}\n# TYPE {name} {kind}\n"
    for labels, value in values:
        yield f"{name}{labels} {value}\n"

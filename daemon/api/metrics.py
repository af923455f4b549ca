"""GET /metrics: the state of the daemon as Prometheus text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain

import psutil
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from daemon.api.prometheus import CONTENT_TYPE, counter, family, gauge, histograms
from daemon.engine.base import CACHE_MISSES
from daemon.services import Services


class MetricRoutes:
    def __init__(self, services: Services) -> None:
        self._services = services

    def routes(self) -> list[Route]:
        return [Route("/metrics", self.metrics, methods=["GET"])]

    async def metrics(self, request: Request) -> Response:
        asked = list(self._requests())  # on the loop, which adds to them
        read = await asyncio.to_thread(lambda: list(chain(self._engine(), self._store(), self._learning(), self._process())))
        return Response("".join([*asked, *read]), headers={"content-type": CONTENT_TYPE})

    def _requests(self) -> Iterator[str]:
        measures, activity = self._services.measures, self._services.serving.activity
        yield from gauge("reef_requests_in_flight", "Live requests that are being answered.", activity.in_flight)
        by_status = [({"route": route, "status": str(status)}, count) for (route, status), count in measures.requests.items()]
        yield from family("reef_requests_total", "Requests answered; status 499 is a client that hung up.", "counter", by_status)
        by_route = [({"route": route}, seconds) for route, seconds in measures.seconds.items()]
        yield from histograms("reef_request_seconds", "From the request's headers to the end of its answer.", by_route)
        yield from histograms("reef_first_token_seconds", "From admission to the first token.", [({}, measures.first_token)])
        tokens = [({"kind": kind}, measures.tokens[kind]) for kind in ("prompt", "cached", "completion")]
        yield from family("reef_tokens_total", "Tokens of recorded requests; cached ones are among the prompt's.", "counter", tokens)
        outcomes = [({"outcome": outcome}, measures.records[outcome]) for outcome in ("ok", "aborted", "error")]
        yield from family("reef_generations_total", "Recorded generations by how they ended.", "counter", outcomes)

    def _engine(self) -> Iterator[str]:
        stats = self._services.engine.stats
        cache = stats.cache
        yield from gauge("reef_engine_ready", "Whether the engine can answer.", int(stats.state == "ready"))
        yield from gauge("reef_engine_active", "Sequences that are being computed.", stats.active)
        yield from gauge("reef_engine_queued", "Requests that wait for a place.", stats.queued)
        yield from counter("reef_engine_restarts_total", "Times that the engine was started again.", stats.restarts)
        yield from counter("reef_prompt_tokens_read_total", "Prompt tokens that were computed.", cache.read_tokens)
        yield from counter("reef_prompt_tokens_reused_total", "Prompt tokens found in the cache.", cache.reused_tokens)
        yield from gauge("reef_prefix_cache_bytes", "Held of conversations that have no place now.", cache.held_bytes)
        yield from gauge("reef_prefix_cache_limit_bytes", "The most that is held of them.", cache.limit_bytes)
        misses = [({"reason": reason}, cache.misses.get(reason, 0)) for reason in CACHE_MISSES]
        yield from family("reef_prefix_cache_misses_total", "Continued conversations that were read again.", "counter", misses)

    def _store(self) -> Iterator[str]:
        services, commits = self._services, self._services.store.commits
        yield from histograms("reef_commit_seconds", "From the begin to the end of a commit, the disk included.", [({}, commits.seconds)])
        yield from histograms("reef_commit_writes", "Writes that share a commit.", [({}, commits.batch)])
        yield from counter("reef_commits_failed_total", "Commits that the disk or the database refused.", commits.failed)
        yield from gauge("reef_index_lag_records", "Records that searches do not find yet.", services.store.index_lag)
        counts = {name: services.reader.counts(name) for name in sorted(services.serving.heads)}
        yield from _by_scenario("reef_records_total", "Stored inferences.", {name: one.inferences for name, one in counts.items()})
        yield from _by_scenario("reef_reports_total", "Stored reports.", {name: one.reports for name, one in counts.items()})
        yield from _by_scenario("reef_sessions_total", "Sessions.", {name: one.sessions for name, one in counts.items()})
        yield from _by_scenario("reef_imported_total", "Imported records.", {name: one.imported for name, one in counts.items()})

    def _learning(self) -> Iterator[str]:
        services = self._services
        yield from gauge("reef_run_active", "Whether a run is under way.", int(services.runner.active is not None))
        runs = [({"status": status}, count) for status, count in services.runs.counts().items()]
        yield from family("reef_runs_total", "Runs by how they stand.", "counter", runs)
        heads = services.serving.heads.values()
        numbers = {head.scenario: head.release_id for head in heads}
        serving = [({"scenario": name, "release": release}, 1.0) for name, release in sorted(numbers.items())]
        yield from family("reef_release_info", "The release that serves.", "gauge", serving)

    def _process(self) -> Iterator[str]:
        process = psutil.Process()
        times = process.cpu_times()
        yield from gauge("process_resident_memory_bytes", "Of the daemon, without the engine.", process.memory_info().rss)
        yield from counter("process_cpu_seconds_total", "Of the daemon, without the engine.", times.user + times.system)
        yield from gauge("process_open_fds", "Open files and sockets.", process.num_fds())
        yield from gauge("process_start_time_seconds", "Since the epoch.", self._services.started_at)


def _by_scenario(name: str, text: str, values: dict[str, int]) -> Iterator[str]:
    yield from family(name, text, "counter", [({"scenario": scenario}, value) for scenario, value in values.items()])

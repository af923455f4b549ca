"""Around everything that is served: a request id for the answer and the log, one line in the access log, and what `/metrics` counts."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.failpoints import failpoint
from daemon.gateway.heads import headers_of
from daemon.observing import request_facts
from daemon.observing.measures import CacheMiss, RequestMeasures
from daemon.observing.request_facts import RequestFacts
from daemon.records import JSONObject, new_id
from daemon.redaction.redactor import Redactor

_log = logging.getLogger("reef.access")
_HEADER = "x-request-id"
_SANE = re.compile(r"(?!reef-(?:client|owner|run)-)[A-Za-z0-9._:-]{1,128}")  # a token is no id
_NO_ROUTE = "other"
_POLLED = frozenset({"/healthz", "/health", "/metrics", "/reef/engine"})  # asked every few seconds: only what goes wrong is logged
_CLIENT_GONE = 499
_SECRETS = Redactor()
_MAX_NAME_CHARACTERS = 128  # clients choose names of sessions
_NAMES = ("session", "release", "receipt", "error", "param")


class Observing:
    """ASGI middleware; outermost, so that it also sees what is refused at the door."""

    def __init__(self, app: ASGIApp, routes: Iterable[Route], measures: RequestMeasures) -> None:
        self._app = app
        self._measures = measures
        self._names: dict[object, str] = {}
        for route in routes:
            self._names.setdefault(route.endpoint, route.path)  # the same wire under a scenario's path counts with it

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        facts = RequestFacts(_id_of(headers_of(scope)))
        request_facts.begin(facts)
        started = time.perf_counter()

        async def observed(message: Message) -> None:
            if message["type"] == "http.response.start":
                facts.status = message["status"]
                message["headers"] = [*message["headers"], (_HEADER.encode(), facts.id.encode())]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                failpoint("admission.receipt-sent")

        try:
            await self._app(scope, receive, observed)
        finally:
            self._ended(scope, facts, time.perf_counter() - started)

    def _ended(self, scope: Scope, facts: RequestFacts, seconds: float) -> None:
        route, status = self._names.get(scope.get("endpoint"), _NO_ROUTE), facts.status
        if facts.error == "client_gone" or not status:
            status = _CLIENT_GONE
        measures = self._measures
        measures.answered(route, status, seconds)
        if facts.records:
            measures.records[facts.outcome] += facts.records
            measures.tokens["prompt"] += facts.prompt_tokens
            measures.tokens["cached"] += facts.cached_tokens
            measures.tokens["completion"] += facts.completion_tokens
            if facts.cache_miss:
                read = facts.prompt_tokens - facts.cached_tokens
                measures.misses.append(CacheMiss(time.time(), facts.scenario, facts.session, facts.cache_miss, read))
            if facts.first_token_ms:
                measures.first_token.observe(facts.first_token_ms / 1000)
        wrong = status >= 400 or facts.outcome == "error"  # a stream has begun with 200, however it ends
        level = logging.ERROR if status >= 500 else logging.WARNING if wrong else logging.INFO
        if level == logging.INFO and route in _POLLED:
            level = logging.DEBUG
        if _log.isEnabledFor(level):
            _log.handle(_Line(level, (scope["method"], route, status), _fields(scope, route, facts, status, seconds)))


class _Line(logging.LogRecord):
    """A line of the access log. What else a record tells, as the line of code that made it, nobody reads of these: only finding it out
    would cost more than the line."""

    def __init__(self, level: int, args: tuple[object, ...], fields: JSONObject) -> None:
        created = time.time()
        name = logging.getLevelName(level)
        self.__dict__.update(_LINE, levelno=level, levelname=name, args=args, created=created, msecs=created % 1 * 1000, fields=fields)


_LINE = dict(vars(logging.LogRecord(_log.name, logging.INFO, __file__, 0, "%s %s %d", (), None)))


def _id_of(headers: Mapping[str, str]) -> str:
    """The client's, if it is one that can stand in a log; else a new one."""
    given = headers.get(_HEADER)
    if given is not None and _SANE.fullmatch(given) and not _SECRETS.text(given)[1]:
        return given
    return new_id("req")


def _fields(scope: Scope, route: str, facts: RequestFacts, status: int, seconds: float) -> JSONObject:
    """The access log's line: names and numbers. The path is left out, for it can hold anything; the route stands for it."""
    found: JSONObject = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    scenario = facts.scenario
    if not scenario and status < 400:  # what a path names is told only where there is such a scenario: else it could be anything
        scenario = str(scope.get("path_params", {}).get("scenario", ""))
    if scenario:
        found["scenario"] = scenario[:_MAX_NAME_CHARACTERS]
    for name in _NAMES if facts.records or facts.error else ():
        if text := getattr(facts, name):
            found[name] = text[:_MAX_NAME_CHARACTERS]
    if facts.outcome not in ("", "ok"):
        found["outcome"] = facts.outcome
    if facts.hint:
        found["hint"] = facts.hint
    if facts.records:
        found["first_token_ms"] = round(facts.first_token_ms, 1)
        found["prompt_tokens"], found["cached_tokens"] = facts.prompt_tokens, facts.cached_tokens
        found["completion_tokens"] = facts.completion_tokens
    return found

"""Around everything that is served: a request id for the answer and the log, one line in the access log, and what `/metrics` counts."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from daemon.failpoints import failpoint
from daemon.observing import request_facts
from daemon.observing.measures import CacheMiss, RequestMeasures
from daemon.observing.request_facts import RequestFacts
from daemon.records import JSONObject, new_id
from daemon.redaction.redactor import Redactor

_log = logging.getLogger("reef.access")
_HEADER = b"x-request-id"
_SANE = re.compile(rb"(?!reef-(?:client|owner|run)-)[A-Za-z0-9._:-]{1,128}")  # a token is no id
_NO_ROUTE = "other"
_POLLED = frozenset({"/healthz", "/health", "/metrics", "/reef/engine"})  # asked every few seconds: only what goes wrong is logged
_CLIENT_GONE = 499
_SECRETS = Redactor()
_MAX_NAME_CHARACTERS = 128  # clients choose names of sessions


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
        facts = RequestFacts(_id_of(scope["headers"]))
        request_facts.begin(facts)
        header = (_HEADER, facts.id.encode())
        started, status = time.perf_counter(), 0

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], header]
            await send(message)
            if message["type"] == "http.response.body" and not message.get("more_body"):
                failpoint("admission.receipt-sent")

        try:
            await self._app(scope, receive, observed)
        finally:
            self._ended(scope, facts, status, time.perf_counter() - started)

    def _ended(self, scope: Scope, facts: RequestFacts, status: int, seconds: float) -> None:
        route = self._names.get(scope.get("endpoint"), _NO_ROUTE)
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
            record = logging.LogRecord(_log.name, level, __file__, 0, "%s %s %d", (scope["method"], route, status), None)
            record.fields = _fields(scope, route, facts, status, seconds)
            _log.handle(record)  # `log` would first look for the line of code that calls it


def _id_of(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """The client's, if it is one that can stand in a log; else a new one."""
    for name, value in headers:
        if name == _HEADER and _SANE.fullmatch(value) and not _SECRETS.text(given := value.decode("ascii"))[1]:
            return given
    return new_id("req")


def _fields(scope: Scope, route: str, facts: RequestFacts, status: int, seconds: float) -> JSONObject:
    """The access log's line: names and numbers. The path is left out, for it can hold anything; the route stands for it."""
    parameters: Mapping[str, object] = scope.get("path_params", {})
    found: JSONObject = {"method": scope["method"], "route": route, "status": status, "ms": round(seconds * 1000, 1)}
    # What a path names is told only where there is such a scenario: else it could be anything.
    scenario = facts.scenario or (str(parameters.get("scenario", "")) if status < 400 else "")
    texts = {
        "scenario": scenario,
        "session": facts.session,
        "release": facts.release,
        "receipt": facts.receipt,
        "outcome": facts.outcome if facts.outcome != "ok" else "",
        "error": facts.error,
        "param": facts.param,
        "hint": facts.hint,
    }
    found.update({name: text[:_MAX_NAME_CHARACTERS] if name != "hint" else text for name, text in texts.items() if text})
    if facts.records:
        found["first_token_ms"] = round(facts.first_token_ms, 1)
        found["prompt_tokens"], found["cached_tokens"] = facts.prompt_tokens, facts.cached_tokens
        found["completion_tokens"] = facts.completion_tokens
    return found

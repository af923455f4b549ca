"""Errors in the shape that each wire expects."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from enum import Enum

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from daemon.errors import BadRequest, Busy, ContextOverflow, EngineError, NotFound, ReefError
from daemon.observing.request_facts import note_error, request_id
from daemon.records import JSONObject

_log = logging.getLogger("reef.http")
_ROUTES = (
    "For clients there are POST /v1/chat/completions, /v1/responses, /v1/messages, /v1/completions and /v1/embeddings, and GET /v1/models."
)
_ANTHROPIC_PATH = re.compile(r"/v1/messages(/|$)")
_OPENAI_PATH = re.compile(r"(^|/)v1(/|$)")
_READABLE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)  # made once: each token of a stream needs one
_ESCAPED = json.JSONEncoder(separators=(",", ":"), allow_nan=False)
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_ANTHROPIC_OVERLOADED = 529  # the wire's own status for that, which its clients wait and try again on
_TOO_LONG = re.compile(r"maximum context length is (\d+) tokens.*?requested (?:at least )?(\d+) tokens", re.S)


class Shape(Enum):
    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    REEF = "reef"


class MethodNotAllowed(ReefError):
    status, code = 405, "method_not_allowed"


class UnsupportedMediaType(ReefError):
    status, code = 415, "unsupported_media_type"


def shape_of(path: str) -> Shape:
    """The error shape of a path: by the wire route it ends in, `/reef/*` otherwise."""
    if _ANTHROPIC_PATH.search(path):
        return Shape.ANTHROPIC
    return Shape.OPENAI if _OPENAI_PATH.search(path) else Shape.REEF


def error_object(error: ReefError, shape: Shape) -> JSONObject:
    """The JSON body that carries `error`."""
    if shape is Shape.ANTHROPIC:
        kind = _ANTHROPIC_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
        body: JSONObject = {"type": "error", "error": {"type": kind, "message": _anthropic_text(error)}}
        return body | {"request_id": known} if (known := request_id()) else body
    if shape is Shape.OPENAI:
        kind = "invalid_request_error" if error.status < 500 and error.status not in (401, 403, 429) else error.code
        return {"error": {"message": str(error), "type": kind, "param": error.param, "code": error.code}}
    return {"error": {"code": error.code, "message": error.message, "hint": error.hint}}


def _anthropic_text(error: ReefError) -> str:
    """Clients of the messages wire compact a conversation on these words, and read the numbers."""
    text = str(error)
    if not isinstance(error, ContextOverflow) or "prompt is too long" in text.lower():
        return text
    found = _TOO_LONG.search(text)
    return f"prompt is too long: {found.group(2)} tokens > {found.group(1)} maximum. {text}" if found else f"prompt is too long: {text}"


def json_response(content: JSONObject, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(json_bytes(content), status, headers, media_type="application/json")


def json_bytes(content: JSONObject) -> bytes:
    """Compact UTF-8 JSON; text stays readable."""
    try:
        return orjson.dumps(content)
    except TypeError:  # half a character, a number beyond 64 bits
        return _exact_bytes(content)


def _exact_bytes(content: JSONObject) -> bytes:
    """As `json_bytes`, ten times as slow."""
    try:
        return _READABLE.encode(content).encode()
    except UnicodeEncodeError:  # a lone surrogate, which came in as a JSON escape and can only go out as one
        return _ESCAPED.encode(content).encode()


def error_response(error: ReefError, path: str, *, close: bool = False) -> Response:
    """The response for `error`; `close` ends the connection (the body was not read)."""
    note_error(error)
    headers = {"retry-after": str(_retry_after_s(error))} if error.status in (429, 503) else {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if close:
        headers["connection"] = "close"
    shape = shape_of(path)
    status = _ANTHROPIC_OVERLOADED if shape is Shape.ANTHROPIC and error.status == 503 else error.status
    return json_response(error_object(error, shape), status, headers)


def _retry_after_s(error: ReefError) -> int:
    known = error.retry_after_s if isinstance(error, Busy | EngineError) else None
    return known or 1


async def on_reef_error(request: Request, error: Exception) -> Response:
    if not isinstance(error, ReefError):
        return await on_bug(request, error)
    if error.status >= 500:
        _log.warning("%s %s: %s", request.method, request.url.path, error)
    return error_response(error, request.url.path)


async def on_http_error(request: Request, error: Exception) -> Response:
    """Starlette's own 404 and 405."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    path = request.url.path
    if status == 404:
        return error_response(NotFound(f"There is no route {request.method} {path}.", _ROUTES), path)
    if status == 405:
        return error_response(MethodNotAllowed(f"{path} does not take {request.method}.", _ROUTES), path)
    return error_response(BadRequest("The request could not be read."), path)


async def on_bug(request: Request, error: Exception) -> Response:
    """What nobody foresaw: logged with its traceback, answered without it."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return error_response(ReefError("Something went wrong inside Reef.", "The daemon's log has the details: reef logs."), request.url.path)

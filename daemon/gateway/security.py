"""The door: Host, Origin, token, size and content type are checked before a body is read.

A web page in the user's browser can reach a loopback port. It cannot send the right Host after DNS rebinding, is betrayed by its Origin,
cannot know the token, and cannot post JSON across origins without a preflight that is never answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from daemon.errors import BadRequest, Forbidden, ReefError, TooLarge, Unauthorized
from daemon.gateway.errors import UnsupportedMediaType, error_response
from daemon.gateway.heads import headers_of
from daemon.tokens import Caller, Role, Tokens

BODY_LIMIT_BYTES = 64 << 20
_HEADER_LIMIT = 100
_HEADER_LIMIT_BYTES = 64 << 10
_URL_LIMIT_BYTES = 8 << 10
_OPEN_PATH = "/healthz"
_CALLER = "reef.caller"
_BODY_METHODS = frozenset({"POST", "PUT", "PATCH"})


class Names:
    """The Host and Origin values that this daemon answers to. Settings may be changed while it runs."""

    def __init__(self, host: str, port: int, allowed_hosts: Iterable[str] = (), allowed_origins: Iterable[str] = ()) -> None:
        self._own = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self._own.add(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
        if port == 80:
            self._own |= {name.removesuffix(":80") for name in self._own}
        self.allow(allowed_hosts, allowed_origins)

    def allow(self, hosts: Iterable[str], origins: Iterable[str]) -> None:
        """Replace the configured names."""
        self._hosts = self._own | {host.lower() for host in hosts}
        self._origins = {f"http://{host}" for host in self._own} | {origin.lower().rstrip("/") for origin in origins}

    def check(self, host: str | None, *origins: str) -> None:
        """Raise `Forbidden` for a name that is not ours."""
        if host is None or host.lower() not in self._hosts:
            hint = "Use 127.0.0.1 or localhost, or add it to server.allowed_hosts."
            raise Forbidden(f"This daemon does not answer to the host name {host!r}.", hint)
        for origin in origins:
            if origin.lower().rstrip("/") not in self._origins:
                hint = "Add it to server.allowed_origins if you trust it."
                raise Forbidden(f"Requests from the web origin {_host_of(origin)!r} are not allowed.", hint)


def _host_of(origin: str) -> str:
    try:
        return urlsplit(origin).netloc or origin
    except ValueError:  # such as an IPv6 address that does not end
        return origin


def caller_of(request: Request) -> Caller:
    """Whose token the request carried; the middleware has checked it."""
    caller = request.scope.get(_CALLER)
    if not isinstance(caller, Caller):
        raise Unauthorized("The request was not authenticated.")
    return caller


class URLTooLong(ReefError):
    status, code = 414, "url_too_long"


class TooManyHeaders(ReefError):
    status, code = 431, "headers_too_large"


class Security:
    """ASGI middleware; outermost, so that nothing below it sees a request that it refused."""

    def __init__(self, app: ASGIApp, *, tokens: Tokens, names: Names) -> None:
        self._app = app
        self._tokens = tokens
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # neither lifespan nor WebSockets are used; the server refuses an upgrade by itself
        try:
            scope[_CALLER] = self._admit(scope)
        except ReefError as error:
            await error_response(error, scope["path"], close=True)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _admit(self, scope: Scope) -> Caller:
        raw, headers = scope["headers"], headers_of(scope)
        if len(raw) > _HEADER_LIMIT or sum([len(name) + len(value) for name, value in raw]) > _HEADER_LIMIT_BYTES:
            raise TooManyHeaders(f"The request has more than {_HEADER_LIMIT} headers or {_HEADER_LIMIT_BYTES >> 10} KiB of them.")
        if len(scope["raw_path"]) + len(scope["query_string"]) > _URL_LIMIT_BYTES:
            raise URLTooLong(f"The request's address is longer than {_URL_LIMIT_BYTES >> 10} KiB.", "Send long values in the body.")
        if len(raw) > len(headers) and sum([name == b"host" for name, _ in raw]) > 1:
            raise BadRequest("The request names its host twice.")
        self._names.check(headers.get("host"), *[value.decode("latin-1") for name, value in raw if name == b"origin"])
        if headers.get("upgrade", "").lower() == "websocket":
            raise BadRequest("WebSockets are not served here.", "Use HTTP with server-sent events.")
        path = scope["path"]  # what is routed by; the URL's own path ends at a %3F
        if path == _OPEN_PATH and scope["method"] in ("GET", "HEAD"):
            return Caller(Role.CLIENT)
        token = _presented(headers)
        caller = self._tokens.identify(token)
        if caller is None:
            missing = "The request has no token." if not token else "The token is wrong."
            raise Unauthorized(missing, "Send 'Authorization: Bearer TOKEN'; the client's token is in tokens/client of Reef's home.")
        _check_reach(caller, path)
        if scope["method"] in _BODY_METHODS:
            _check_body(headers)
        return caller


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and value.strip():
        return value.strip()
    return headers.get("x-api-key", "").strip()


def _check_reach(caller: Caller, path: str) -> None:
    """A run's token reaches the evaluation routes of its scenario and nothing else."""
    if caller.role is Role.RUN and not path.startswith(f"/reef/scenarios/{caller.scenario}/evaluation/"):
        raise Forbidden("A run's token reaches only the evaluation routes of its own scenario.")


def _check_body(headers: Mapping[str, str]) -> None:
    length = headers.get("content-length")
    if length is not None:
        if not length.isascii() or not length.isdigit():
            raise BadRequest("The content-length header is not a number.")
        if int(length) > BODY_LIMIT_BYTES:
            raise TooLarge(f"The body is larger than {BODY_LIMIT_BYTES >> 20} MiB.")
        if int(length) == 0:
            return
    elif "transfer-encoding" not in headers:
        return
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
        raise UnsupportedMediaType(f"The content type is {kind or 'missing'!r}.", "Send 'Content-Type: application/json'.")

"""Reading a JSON body: bounded in bytes, in time, in nesting, and after decompression."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Callable
from typing import TypeVar, cast

from starlette.requests import Request

from daemon import json_text
from daemon.errors import BadRequest, Busy, TooLarge
from daemon.frozen import dataclass
from daemon.gateway.errors import UnsupportedMediaType
from daemon.gateway.heads import headers_of
from daemon.gateway.security import BODY_LIMIT_BYTES
from daemon.listener import ARRIVED
from daemon.records import JSON, JSONObject

T = TypeVar("T")

CHUNK_TIMEOUT_S = 30.0
START_S = 60.0
SLOWEST_BYTES_S = 16 << 10
"""A body must come at least this fast after its first minute: a byte now and then would hold a connection for days."""
_PARSE_IN_THREAD_BYTES = 256 << 10
_MAX_BRACKETS = 500_000  # those in texts count too: a prompt with more fits no model
_MAX_COMMAS = 4_000_000
_GZIP_WBITS = 31
HELD_LIMIT_BYTES = 256 << 20
"""Of all bodies together, until they are parsed: what is parsed can take several times its bytes."""


class ClientGone(BadRequest):
    """The client hung up while it was sending; nobody reads the answer."""

    code = "client_gone"


class TooSlow(BadRequest):
    status, code = 408, "request_timeout"


@dataclass(frozen=True, slots=True)
class Body:
    data: bytes  # decompressed
    value: JSONObject


async def read_json(request: Request, limit_bytes: int = BODY_LIMIT_BYTES) -> JSONObject:
    """As `read_body`, without the bytes."""
    return (await read_body(request, limit_bytes)).value


async def read_body(request: Request, limit_bytes: int = BODY_LIMIT_BYTES) -> Body:
    """The request's body as a JSON object; an empty body is `{}`.

    Raises:
        BadRequest: not JSON, not an object, nested too deeply, or sent too slowly.
        TooLarge: more than `limit_bytes`, before or after decompression.
        Busy: more than is taken from all clients at a time.
    """
    with _Held() as held:
        data = await _read(request, limit_bytes, held)
        if not data:
            return Body(data, {})
        value = await asyncio.to_thread(_parse, data) if len(data) > _PARSE_IN_THREAD_BYTES else _parse(data)
    if not isinstance(value, dict):
        raise BadRequest("The body must be a JSON object.")
    return Body(data, value)


async def parsed(body: Body, parse: Callable[[JSONObject], T]) -> T:
    """What `parse` makes of the body: in a thread where the body is long, for a wire's parser looks at each message."""
    return await asyncio.to_thread(parse, body.value) if len(body.data) > _PARSE_IN_THREAD_BYTES else parse(body.value)


class _Held:
    """The bytes of one body, counted among those of all bodies that are being sent and parsed."""

    total_bytes = 0

    def __init__(self) -> None:
        self._bytes = 0

    def __enter__(self) -> _Held:
        return self

    def __exit__(self, *_: object) -> None:
        _Held.total_bytes -= self._bytes

    def add(self, count: int) -> None:
        """Raises `Busy` where all of them together would be too many."""
        if _Held.total_bytes + count > HELD_LIMIT_BYTES:
            raise Busy("Too much is being sent at the same time.", "Try again in a moment.", retry_after_s=2)
        self._bytes += count
        _Held.total_bytes += count


def _parse(data: bytes) -> JSON:
    """Strict JSON; errors name the place. Millions of values would be read in one go, and hold up everybody else for seconds."""
    if len(data) > _MAX_BRACKETS and (data.count(b"[") + data.count(b"{") > _MAX_BRACKETS or data.count(b",") > _MAX_COMMAS):
        raise BadRequest("The body holds more arrays, objects and values than any request needs.", "Send less at a time.")
    try:
        return json_text.parse(data)
    except json.JSONDecodeError as error:
        raise BadRequest(f"The body is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}.") from error
    except UnicodeDecodeError as error:
        raise BadRequest("The body is not UTF-8 text.") from error
    except ValueError as error:
        raise BadRequest(f"The body is not valid JSON: {error}.") from error


async def _read(request: Request, limit_bytes: int, held: _Held) -> bytes:
    encoding = headers_of(request.scope).get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", ""):
        raise UnsupportedMediaType(f"The content encoding {encoding!r} is not supported.", "Send the body plain or as gzip.")
    arrived = request.scope.get(ARRIVED)
    if encoding != "gzip" and arrived is not None and (whole := arrived()) is not None:
        if len(whole) > limit_bytes:
            raise _too_large(limit_bytes)
        held.add(len(whole))
        return cast(bytes, whole)
    decoder = zlib.decompressobj(_GZIP_WBITS) if encoding == "gzip" else None
    parts, sent = bytearray(), 0
    clock = asyncio.get_running_loop().time
    begun = clock()
    try:
        async with asyncio.timeout(CHUNK_TIMEOUT_S) as deadline:
            more = True
            while more:
                message = await request.receive()
                if message["type"] == "http.disconnect":
                    raise ClientGone("The client hung up.")
                chunk, more = message.get("body", b""), message.get("more_body", False)
                sent += len(chunk)  # what is taken in and gives nothing, as a gzip header without end, counts too
                if more:
                    deadline.reschedule(min(clock() + CHUNK_TIMEOUT_S, begun + START_S + sent / SLOWEST_BYTES_S))
                piece = chunk if decoder is None else decoder.decompress(chunk, limit_bytes + 1 - len(parts))
                if decoder is not None and decoder.unused_data:
                    raise BadRequest("The body goes on after its gzip data has ended.", "Send it as one gzip member.")
                held.add(len(piece))
                parts += piece
                if max(len(parts), sent) > limit_bytes or (decoder is not None and decoder.unconsumed_tail):
                    raise _too_large(limit_bytes)
    except TimeoutError as error:
        raise TooSlow("The body came too slowly.", f"Send each part within {CHUNK_TIMEOUT_S:g} s.") from error
    except zlib.error as error:
        raise BadRequest("The body is not valid gzip.") from error
    if decoder is not None and not decoder.eof:
        raise BadRequest("The gzip body is cut short.")
    return bytes(parts)


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(f"The body is larger than {limit_bytes / (1 << 20):g} MiB.")

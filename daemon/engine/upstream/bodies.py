"""Reading what another server answers, bounded."""

from __future__ import annotations

import aiohttp

from daemon.engine.upstream.events import REPLY_LIMIT_BYTES
from daemon.engine.upstream.json_reading import json_or_none
from daemon.errors import EngineError
from daemon.records import JSON

_REFUSAL_LIMIT_BYTES = 64 << 10


async def read_whole(response: aiohttp.ClientResponse) -> bytes:
    """Raises `EngineError` for a body without end."""
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > REPLY_LIMIT_BYTES:
            raise EngineError("The upstream sent a reply without end.", "Look at its log.")
    return bytes(body)


async def read_refusal(response: aiohttp.ClientResponse) -> JSON:
    """The beginning of the body, if that is JSON; else None."""
    body = bytearray()
    async for block in response.content.iter_any():
        body += block
        if len(body) > _REFUSAL_LIMIT_BYTES:
            break
    return json_or_none(bytes(body))

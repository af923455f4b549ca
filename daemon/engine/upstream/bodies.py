"""Reading what another server answers, bounded."""

from __future__ import annotations

from daemon.engine.upstream.connection import Connection
from daemon.engine.upstream.errors import refusal
from daemon.engine.upstream.events import REPLY_LIMIT_BYTES
from daemon.engine.upstream.json_reading import json_or_none
from daemon.errors import EngineError

_REFUSAL_LIMIT_BYTES = 64 << 10


async def read_whole(answer: Connection) -> bytes:
    """Raises `EngineError` for a body without end."""
    body = await answer.whole(REPLY_LIMIT_BYTES)
    if body is None:
        raise EngineError("The upstream sent a reply without end.", "Look at its log.")
    return body


async def raise_for_status(answer: Connection) -> None:
    """Raise what a status other than 2xx means; its body counts where it is short."""
    if 200 <= answer.status < 300:
        return
    body = await answer.whole(_REFUSAL_LIMIT_BYTES)
    raise refusal(answer.status, json_or_none(body) if body is not None else None, answer.headers.get("retry-after"))

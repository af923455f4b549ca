"""Reading JSON of another server: fast, and lenient where servers are."""

from __future__ import annotations

import json

import orjson

from daemon.errors import EngineError
from daemon.records import JSON


def read_value(data: str | bytes) -> JSON:
    """The value. Raises `EngineError` for what is no JSON, or nested without end.

    Some servers write NaN and infinities, which no JSON has, for log-probabilities; some write half a character.
    """
    try:
        value: JSON = orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise EngineError("The upstream sent something that is no reply.", "Look at its log.") from error
    return value


def json_or_none(data: bytes) -> JSON:
    """None for what is no JSON."""
    try:
        return read_value(data)
    except EngineError:
        return None

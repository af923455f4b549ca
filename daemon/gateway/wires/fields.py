"""Reading fields of a request body: absent and null are the same, a bad value is a 400 that names the field."""

from __future__ import annotations

import json

from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject


def bad(name: str, wanted: str, value: JSON) -> BadRequest:
    shown = repr(value)
    if len(shown) > 60:
        shown = f"{shown[:57]}…{shown[-1] if isinstance(value, str) else ''}"
    return BadRequest(f"'{name}' must be {wanted}, not {shown}.", param=name)


def number(body: JSONObject, name: str, low: float, high: float) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise bad(name, f"a number from {low:g} to {high:g}", value)
    return float(value)


def integer(body: JSONObject, name: str, low: int, high: int) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise bad(name, f"an integer from {low} to {high}" if high < 1 << 31 else f"an integer of at least {low}", value)
    return value


def check_characters(body: JSONObject, name: str) -> None:
    """Refuse half a character, such as the escape \\ud800 alone, in what goes into a file or a command: no UTF-8 can hold it."""
    try:
        json.dumps(body.get(name), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise BadRequest(f"'{name}' holds half a character, which UTF-8 cannot hold.", param=name) from error


def boolean(body: JSONObject, name: str, *, otherwise: bool = False) -> bool:
    value = body.get(name)
    if value is None:
        return otherwise
    if not isinstance(value, bool):
        raise bad(name, "true or false", value)
    return value


def text(body: JSONObject, name: str, *, limit: int = 1 << 20) -> str | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > limit:
        raise bad(name, f"a text of at most {limit} characters", value)
    return value


def required_text(body: JSONObject, name: str, *, limit: int = 1 << 20) -> str:
    value = text(body, name, limit=limit)
    if not value:
        raise BadRequest(f"'{name}' is missing.", "GET /v1/models lists what it may be." if name == "model" else "", param=name)
    return value


def an_object(body: JSONObject, name: str) -> JSONObject | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise bad(name, "an object", value)
    return value


def array(body: JSONObject, name: str) -> list[JSON]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise bad(name, "an array", value)
    return value


def texts(body: JSONObject, name: str, *, most: int) -> tuple[str, ...]:
    """A text or an array of texts."""
    value = body.get(name)
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list) or len(values) > most:
        raise bad(name, f"a text or an array of at most {most} texts", value)
    found: list[str] = []
    for entry in values:
        if not isinstance(entry, str):
            raise bad(name, f"a text or an array of at most {most} texts", value)
        if entry:
            found.append(entry)
    return tuple(found)

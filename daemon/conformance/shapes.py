"""Reading JSON of unknown shape: what is not as expected counts as empty."""

from __future__ import annotations

from daemon.records import JSON, JSONObject


def an_object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def objects(value: JSON) -> list[JSONObject]:
    """The objects of a list; none where it is no list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def a_text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def a_count(value: JSON) -> int:
    """A number that is not negative, else 0."""
    return max(0, int(value)) if isinstance(value, int | float) and not isinstance(value, bool) else 0

"""What agents say on stdout without a terminal: one JSON event a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from daemon.records import JSON, JSONObject


def events(lines: Iterable[str]) -> Iterator[JSONObject]:
    """Lines that are no JSON object (warnings) are skipped."""
    for line in lines:
        try:
            event = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict):
            yield event


def string(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def integer(value: JSON) -> int:
    return value if isinstance(value, int) else 0


def content_text(content: JSON) -> str:
    """The texts of a message's parts."""
    parts = content if isinstance(content, list) else []
    return "".join(string(part.get("text")) for part in parts if isinstance(part, dict) and part.get("type") == "text")

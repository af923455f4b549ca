"""A line of the log as a person reads it: one a request, and below what failed the sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from daemon.records import JSON, JSONObject

Paint = Callable[[str, str], str]
"""Colours a text by an ANSI code."""

RED, YELLOW, GREEN, DIM = "31", "33", "32", "2"
_COLOURS = {"debug": DIM, "warning": YELLOW, "error": RED, "critical": RED}
_INDENT = " " * 9


def plain(text: str, colour: str) -> str:
    return text


def render(entry: JSONObject, paint: Paint) -> str:
    """`entry` is one object of the log file. Control characters are taken out: names in it were chosen by clients."""
    clock = paint(_clock(_text(entry, "time")), DIM)
    line = f"{clock} {_request(entry, paint) if 'route' in entry else _said(entry, paint)}"
    below = [_text(entry, "hint"), *_lines(entry, "trace")] if "route" in entry else _lines(entry, "trace")
    return "\n".join([line, *(_INDENT + paint(text, DIM) for text in below if text)])


def _request(entry: JSONObject, paint: Paint) -> str:
    status = entry.get("status")
    number = status if isinstance(status, int) else 0
    colour = RED if number >= 500 else YELLOW if number >= 400 else GREEN
    parts = [f"{_text(entry, 'method')} {_text(entry, 'route')} {paint(str(number), colour)} {_time(entry.get('ms'))}"]
    if _text(entry, "error"):
        param = _text(entry, "param")
        parts.append(paint(_text(entry, "error") + (f" ({param})" if param else ""), colour))
    if _text(entry, "outcome"):
        parts.append(paint(_text(entry, "outcome"), YELLOW))
    if entry.get("first_token_ms"):
        parts.append(f"first token {_time(entry.get('first_token_ms'))}")
    if "completion_tokens" in entry:
        cached = entry.get("cached_tokens")
        parts.append(
            f"{_text(entry, 'prompt_tokens')} + {_text(entry, 'completion_tokens')} tokens" + (f" ({cached} cached)" if cached else "")
        )
    parts += [_text(entry, name) for name in ("scenario", "session", "release", "receipt") if _text(entry, name)]
    parts.append(paint(_text(entry, "request_id"), DIM))
    return " · ".join(part for part in parts if part)


def _said(entry: JSONObject, paint: Paint) -> str:
    level = _text(entry, "level")
    words = f"{_text(entry, 'logger')}: {_text(entry, 'message')}"
    asked = _text(entry, "request_id")
    mark = f"{paint(level.upper(), _COLOURS[level])} " if level in _COLOURS else ""
    return f"{mark}{words}" + (paint(f" · {asked}", DIM) if asked else "")


def _text(entry: JSONObject, name: str) -> str:
    value = entry.get(name)
    if value is None or isinstance(value, bool | list | dict):
        return ""
    return "".join(character if character.isprintable() else " " for character in str(value))


def _lines(entry: JSONObject, name: str) -> list[str]:
    value = entry.get(name)
    return [_text({"line": line}, "line") for line in value.splitlines()] if isinstance(value, str) else []


def _clock(iso: str) -> str:
    """The time of day here."""
    try:
        return datetime.fromisoformat(iso).astimezone().strftime("%H:%M:%S")
    except ValueError:
        return iso[:8]


def _time(milliseconds: JSON) -> str:
    if not isinstance(milliseconds, int | float):
        return ""
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"

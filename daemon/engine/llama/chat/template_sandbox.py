"""Jinja as chat templates expect it, with Hugging Face's helpers, in Jinja's sandbox.

The sandbox keeps a template away from Python's internals. Its time and memory are bounded by the process that it runs in
(`render_worker`). Lists and objects may be changed, as some templates do: they are copies.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import date, datetime

import jinja2
import jinja2.debug
import jinja2.ext
import jinja2.nodes
import jinja2.parser
import jinja2.sandbox


class Refused(Exception):
    """The template called raise_exception."""


class _Generation(jinja2.ext.Extension):
    """`{% generation %}` marks what a model is trained on; for rendering it says nothing."""

    tags = {"generation"}  # noqa: RUF012 - declared so by jinja2

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def environment(begin_text: str, end_text: str) -> jinja2.Environment:
    """An environment whose templates know the texts of the begin and end tokens."""
    made = jinja2.sandbox.SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols, _Generation])
    made.filters.update(tojson=_tojson, from_json=json.loads)
    made.globals.update(raise_exception=_raise_exception, bos_token=begin_text, eos_token=end_text)
    return made


def clock(day: date) -> Callable[[str], str]:
    """A `strftime_now` that knows the day only: with the time of day in it, no two prompts would begin alike."""
    return datetime(day.year, day.month, day.day).strftime


def _raise_exception(message: object) -> None:
    raise Refused(str(message))


def _tojson(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """Plain JSON, not the HTML-escaped form of Jinja's own filter."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_listed)


def _listed(value: object) -> list[object]:
    """What `map` and `select` leave is read once and written as a list."""
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")

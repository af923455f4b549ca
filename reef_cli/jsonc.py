"""Puts one entry into a JSON text with comments, and leaves every other character as it is."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from json.decoder import JSONDecoder
from typing import TYPE_CHECKING

from daemon.errors import DataError

if TYPE_CHECKING:
    from daemon.records import JSON

_SPACE = re.compile(r"\s*")
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=\s*[\]}])', re.DOTALL)


def parse(text: str) -> JSON:
    """Raises `DataError`."""
    value: JSON = _parse(blanked(text))
    return value


def blanked(text: str) -> str:
    """The same, as long, without comments and without commas before a closing bracket: plain JSON."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found.startswith('"') else re.sub(r"[^\n]", " ", found)

    without_comments = _TOKEN.sub(lambda match: match[0] if match[0] == "," else blank(match), text)
    return _TOKEN.sub(blank, without_comments)


def with_entry(text: str, path: Sequence[str], value: JSON) -> tuple[str, str]:
    """The text with `value` at `path`, objects on the way added, and what was put in. An empty path: the first of a list.

    Raises:
        DataError: it is no JSON, something else lies on the way, or there is something at `path`.
    """
    plain = blanked(text)
    _parse(plain)
    at = _start(plain)
    left = list(path)
    while len(left) > 1 or (left and plain[at] != "{"):
        if plain[at] != "{":
            raise DataError(f"{left[0]!r} cannot be put in: something else stands there.")
        found = next((place for key, place in _members(plain, at) if key == left[0]), None)
        if found is None:
            break
        at = found
        left.pop(0)
    if plain[at] != ("{" if left else "["):
        raise DataError("The settings are not built as expected.")
    if left and any(key == left[0] for key, _ in _members(plain, at)):
        raise DataError(f"There is an entry {left[0]!r} already.")
    for key in reversed(left[1:]):
        value = {key: value}
    indent = re.match(r"[ \t]*", text[text.rfind("\n", 0, at) + 1 :])
    margin = (indent[0] if indent else "") + "  "
    written = json.dumps(value, indent=2, ensure_ascii=False).replace("\n", f"\n{margin}")
    entry = f"{json.dumps(left[0])}: {written}" if left else written
    is_empty = plain[_start(plain, at + 1)] in "}]"
    put = f"\n{margin}{entry}" + (("\n" + margin[:-2]) if is_empty else ",")
    return text[: at + 1] + put + text[at + 1 :], put


def _parse(plain: str) -> JSON:
    try:
        value: JSON = json.loads(plain)
    except (ValueError, RecursionError) as error:
        raise DataError(f"It is not valid JSON: {error}.") from error
    return value


def _start(plain: str, at: int = 0) -> int:
    found = _SPACE.match(plain, at)
    return found.end() if found else at


def _members(plain: str, at: int) -> Iterator[tuple[str, int]]:
    """Each key of the object at `at` with the place of its value."""
    at = _start(plain, at + 1)
    while plain[at] != "}":
        key, at = JSONDecoder().raw_decode(plain, at)
        value = _start(plain, _start(plain, at) + 1)
        yield key, value
        _, at = JSONDecoder().raw_decode(plain, value)
        at = _start(plain, at)
        if plain[at] == ",":
            at = _start(plain, at + 1)

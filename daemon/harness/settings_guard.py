"""What a changed settings file gives an agent leave to do: permissions that are new, restrictions that went, programs that it starts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from daemon.harness.finding import Finding
from daemon.records import JSON

_PERMISSION = re.compile(r"permission|allow|approv|trust|sandbox|hook|dangerous|bypass|deny|forbid|block|confirm|\bask\b", re.IGNORECASE)
_NARROWS = re.compile(r"(?:^|\.)(?:deny|deny_?list|disallow\w*|forbid\w*|block(?:ed|list)\w*|ask)(?:\.|$)", re.IGNORECASE)
_WIDENS = re.compile(r"(?:^|\.)(?:allow\w*|trust\w*|auto_?(?:approve|allow)\w*)(?:\.|$)", re.IGNORECASE)
_PROGRAM = re.compile(
    r"hook|mcp|command|exec|shell|helper|(?<!de)(?<!sub)(?<!tran)script|plugin|extension|package|status_?line|notify|formatter|\blsp\b"
    r"|marketplace|\benv\b|auth_?refresh|credential_?export",
    re.IGNORECASE,
)
WIDENED = "widened permissions"
LIFTED = "a restriction is lifted"
STARTS = "a program that the agent starts"

Leaf = bool | int | float | str | None


def inspect_settings(path: str, before: str | None, after: str | None) -> Iterator[Finding]:
    """What is new in `after`, and what restricted the agent in `before` and is gone. None: there is no such file."""
    was, now = (dict.fromkeys(leaves(read(text or ""))) for text in (before, after))
    told: set[str] = set()
    for name, leaf in now:
        if (name, leaf) in was:
            continue
        whole = f"{name}: {json.dumps(leaf)}"
        if _PROGRAM.search(name):
            yield Finding.of(path, line_of(after or "", name), whole, STARTS, executable=True)
        elif _PERMISSION.search(name) and not (_NARROWS.search(name) and isinstance(leaf, str)):
            yield Finding.of(path, line_of(after or "", name), whole, WIDENED)
        else:
            continue
        told.add(name)
    for name, leaf in was:
        narrowed = _WIDENS.search(name) and isinstance(leaf, str)
        if (name, leaf) not in now and name not in told and _PERMISSION.search(name) and not narrowed:
            yield Finding.of(path, line_of(before or "", name), f"{name}: {json.dumps(leaf)}", LIFTED)


def read(text: str) -> JSON:
    """None for what is no JSON."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


def leaves(value: JSON) -> Iterator[tuple[str, Leaf]]:
    """`permissions.allow` → `Bash(*)`; the entries of a list share its name."""
    for name, leaf, is_key in _walk(value, ""):
        if not is_key:
            yield name, leaf


def texts(value: JSON) -> Iterator[tuple[str, str]]:
    """Every string, keys included, with the name of where it stands."""
    for name, leaf, _ in _walk(value, ""):
        if isinstance(leaf, str):
            yield name, leaf


def line_of(text: str, name: str) -> int:
    key = name.rsplit(".", 1)[-1]
    place = text.find(f'"{key}"') if key else -1
    return text.count("\n", 0, place) + 1 if place >= 0 else 1


def _walk(value: JSON, name: str) -> Iterator[tuple[str, Leaf, bool]]:
    """In the order of the text; not recursive, for a text may nest deeper than calls can."""
    waiting: list[tuple[str, JSON, bool]] = [(name, value, False)]
    while waiting:
        name, value, is_key = waiting.pop()
        if isinstance(value, dict):
            for key, one in reversed(value.items()):
                waiting += [(f"{name}.{key}".lstrip("."), one, False), (name, key, True)]
        elif isinstance(value, list):
            waiting += [(name, one, False) for one in reversed(value)]
        else:
            yield name, value, is_key

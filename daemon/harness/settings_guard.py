"""What a changed settings file gives an agent leave to do: permissions that are new, restrictions that went, programs that it starts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from daemon.harness.finding import Finding
from daemon.harness.programs import LIFTED
from daemon.harness_tree import SETTINGS_PATH
from daemon.records import JSON

_PERMISSION = re.compile(
    r"permission|allow|approv|trust|sandbox|hook|dangerous|bypass|deny|forbid|block(?:ed|_?list)|\bblock\b|confirm|\bask\b", re.IGNORECASE
)
_SWITCH = re.compile(r"\btools?\b|enabled?|disabled?|snapshot", re.IGNORECASE)
_NARROWS = re.compile(r"(?:^|\.)(?:deny|deny_?list|disallow\w*|forbid\w*|block(?:ed|list)\w*|ask)\[\]$", re.IGNORECASE)
_WIDENS = re.compile(r"(?:^|\.)(?:allow\w*|trust\w*|auto_?(?:approve|allow)\w*)\[\]$", re.IGNORECASE)
"""Lists of what may not be done, and of what may: an agent or a pattern may be called so too, and is no list."""
_LIST = re.compile(r"permissions?\.\w+\[\]$", re.IGNORECASE)
_PROGRAM = re.compile(
    r"hook|mcp|command|exec|shell|helper|(?<!de)(?<!sub)(?<!tran)script|plugin|extension|package|status_?line|notify|formatter|\blsp"
    r"|marketplace|\benv\b|auth_?refresh|credential_?export",
    re.IGNORECASE,
)
_FETCHED = re.compile(r"\bnpm\b|path$", re.IGNORECASE)
"""In an agent's settings: packages that it fetches and loads, programs by their place."""
_PLAIN = re.compile(
    r"(?:\$schema|description|name|title|theme|language|locale|personality|verbos\w*|color\w*|colour\w*|temperature|top_?[pk]|seed|keybinds\..*"
    r"|compaction\..*|retry\..*|tui\..*|ui\..*|\w*(?:tokens?|effort|budgets?|thinking\w*|reasoning\w*|summary|verbosity|motion|tips\w*|"
    r"turns?|steps|duration|padding|width|height|progress\w*)(?:\.\w+)?)",
    re.IGNORECASE,
)
"""What an agent looks like, how long it thinks and how much it says."""
_PLAIN_VALUE = re.compile(r"[\w +,.-]{0,64}")
WIDENED = "widened permissions"
STARTS = "a program that the agent starts"
UNKNOWN = "a setting that Reef does not know to be harmless"


def inspect_settings(path: str, before: str | None, after: str | None) -> Iterator[Finding]:
    """What is new in `after`, and what restricted the agent in `before` and is gone. None: there is no such file."""
    was, now = (list(dict.fromkeys(_entries(read(text or "")))) for text in (before, after))
    stood, stands, told, own = set(was), set(now), set[str](), path == SETTINGS_PATH
    for one in now:
        empty = one.leaf in ("[]", "{}")
        if one in stood or (empty and (not _PROGRAM.search(one.name) or any(other.name.startswith(one.name) for other in was))):
            continue
        if _PROGRAM.search(one.name) or (own and _FETCHED.search(one.name)):
            reason = STARTS
        elif _PERMISSION.search(one.name):
            if _NARROWS.search(one.name) and one.leaf.startswith('"'):
                continue
            reason = WIDENED
        elif own and not _is_plain(one):
            reason = UNKNOWN
        else:
            continue
        told.add(one.name)
        yield _finding(path, after, one, reason)
    for one in was:
        restricts = _PERMISSION.search(one.name) or (own and _SWITCH.search(one.name))
        narrowed = _WIDENS.search(one.name) and one.leaf.startswith('"')
        if one not in stands and one.name not in told and restricts and not narrowed and one.leaf not in ("[]", "{}"):
            yield _finding(path, before, one, LIFTED)
    yield from _reordered(path, after, [one for one in was if one in stands], [one for one in now if one in stood])


def _finding(path: str, text: str | None, entry: _Entry, reason: str, said: str = "", within: str = "") -> Finding:
    whole = f"{said}{entry.shown}: {entry.leaf}"
    return Finding.of(
        path, line_of(text or "", entry.shown), whole, reason, executable=reason == STARTS, within=within or f"{whole}\n{entry.within}"
    )


def _reordered(path: str, after: str | None, was: list[_Entry], now: list[_Entry]) -> Iterator[Finding]:
    """Of patterns the last that fits may be the one that counts, and of a command the first word is the program."""
    for reason, matters in ((STARTS, _PROGRAM), (WIDENED, _PERMISSION)):
        old, new = ([one for one in side if matters.search(one.name) and not _LIST.search(one.name)] for side in (was, now))
        if old != new:
            first = next(one for one, other in zip(new, old, strict=True) if one != other)
            within = "\n".join(f"{one.name}: {one.leaf}" for one in new)
            yield _finding(path, after, first, reason, "in another order: ", within)
            return


def _is_plain(entry: _Entry) -> bool:
    value = json.loads(entry.leaf)
    return _PLAIN.fullmatch(entry.name) is not None and (not isinstance(value, str) or _PLAIN_VALUE.fullmatch(value) is not None)


def read(text: str) -> JSON:
    """None for what is no JSON."""
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str  # `permissions.allow[]`
    leaf: str  # as JSON, which tells 1 from true
    within: str  # sha256 of the object of a list that it stands in: what belongs together

    @property
    def shown(self) -> str:
        return self.name.replace("[]", "")


def _entries(value: JSON) -> Iterator[_Entry]:
    """The entries of a list share its name; an empty list or object is an entry too."""
    for name, leaf, is_key, within in _walk(value, ""):
        if name and not is_key:
            yield _Entry(name, json.dumps(leaf), within)


def texts(value: JSON) -> Iterator[tuple[str, str]]:
    """Every string, keys included, with the name of where it stands."""
    for name, leaf, _, _ in _walk(value, ""):
        if isinstance(leaf, str):
            yield name.replace("[]", ""), leaf


def line_of(text: str, name: str) -> int:
    key = name.rsplit(".", 1)[-1]
    place = text.find(f'"{key}"') if key else -1
    return text.count("\n", 0, place) + 1 if place >= 0 else 1


def _walk(value: JSON, name: str) -> Iterator[tuple[str, JSON, bool, str]]:
    """In the order of the text; not recursive, for a text may nest deeper than calls can."""
    waiting: list[tuple[str, JSON, bool, str]] = [(name, value, False, "")]
    while waiting:
        name, value, is_key, within = waiting.pop()
        if isinstance(value, dict) and value:
            for key, one in reversed(value.items()):
                below = f"{name}.{key.replace('[]', '[ ]')}".lstrip(".")
                waiting += [(below, one, False, within), (name, key, True, within)]
        elif isinstance(value, list) and value:
            waiting += [(f"{name}[]", one, False, within or _together(one)) for one in reversed(value)]
        else:
            yield name, value, is_key, within


def _together(value: JSON) -> str:
    if not isinstance(value, dict | list):
        return ""
    try:
        return hashlib.sha256(json.dumps(value).encode()).hexdigest()
    except RecursionError:
        return "deep"

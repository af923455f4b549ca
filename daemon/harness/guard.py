"""The guard before the gate: what in a changed harness a person must see before it may serve.

It reads only what is new against the tree that serves. It finds the known ways in which text turns an agent against its
user; it is no proof of harmlessness, and wording alone can pass it. What it finds is quarantined, never mended.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping

from daemon.harness.finding import Finding
from daemon.harness.programs import RUNS, is_program, lifted, started
from daemon.harness.settings_guard import inspect_settings, line_of, read, texts
from daemon.harness.wording import found as words
from daemon.harness_tree import SERVING_HINTS_PATH, HarnessTree

_MAX_FINDINGS = 200  # a file
_MAX_ALL = 2000
_COMMENT = re.compile(r"<!--(?:(?!<!--).)*?(?:-->|\Z)", re.DOTALL)  # some agents leave comments out
GONE = "an executable is taken away"
PERSONAL = "takes away what a person wrote"


def inspect(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]] | None = None) -> list[Finding]:
    """What a person must look at in `after` that `before` did not have; empty: the gate may decide.

    Args:
        personal: lines that a person wrote, by path: that they go is told too.
    """
    found = list(_inspect(before, after, personal or {}))
    if len(found) <= _MAX_ALL:
        return found
    rest = "\n".join(f"{one.path}:{one.line}: {one.reason} {one.sha256}" for one in found[_MAX_ALL:])
    last = found[_MAX_ALL]
    executable = any(one.executable for one in found[_MAX_ALL:])
    return [*found[:_MAX_ALL], Finding.of(last.path, last.line, rest, f"{len(found) - _MAX_ALL} more findings", executable=executable)]


def _inspect(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    changed = {path: text for path, text in sorted(after.files.items()) if before.files.get(path) != text}
    if any(True for path, text in changed.items() for _ in _scan(path, text)):
        known = {(one.reason, one.sha256) for path, text in before.files.items() for one in _scan(path, text)}
        for path, text in changed.items():
            yield from _bounded(path, text, (one for one in _scan(path, text) if (one.reason, one.sha256) not in known))
    for path, text in changed.items():
        if is_program(path, text):
            yield Finding.of(path, 1, text, RUNS, executable=True)
        was = before.files.get(path, "")
        own = {(one.reason, one.sha256) for one in _bounded(path, was, started(path, was))}  # elsewhere nobody said yes to it
        yield from _bounded(path, text, (one for one in started(path, text) if (one.reason, one.sha256) not in own))
    for path in sorted({*before.files, *after.files}):
        old, new = before.files.get(path), after.files.get(path)
        if old == new:
            continue
        if path.endswith(".json") and path != SERVING_HINTS_PATH:
            yield from _bounded(path, new or "", inspect_settings(path, old, new))
        if old is not None and new is not None:
            yield from _bounded(path, old, lifted(path, old, new))
        if old is not None and new is None and is_program(path, old):
            yield Finding.of(path, 1, old, GONE)
    yield from _taken(before, after, personal)


def _taken(before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """A line that a person wrote and that no file says any more."""
    left = {line.strip() for text in after.files.values() for line in _COMMENT.sub("", text).split("\n")} if personal else set()
    for path, lines in sorted(personal.items()):
        gone = {line.strip() for line in lines} - left
        for number, line in enumerate(before.files.get(path, "").split("\n"), start=1):
            if line.strip() in gone:
                gone.discard(line.strip())
                yield Finding.of(path, number, line.strip(), PERSONAL)


def _bounded(path: str, text: str, findings: Iterator[Finding]) -> Iterator[Finding]:
    """Each once, and at most so many of a file that a person can look at them."""
    seen: set[tuple[str, str]] = set()
    for finding in findings:
        key = (finding.reason, finding.sha256)
        if key in seen:
            continue
        if len(seen) == _MAX_FINDINGS:
            digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
            executable = finding.executable or any(one.executable for one in findings)
            yield Finding.of(path, 1, f"sha256 {digest}", f"more than {_MAX_FINDINGS} findings", executable=executable)
            return
        seen.add(key)
        yield finding


def _scan(path: str, text: str) -> Iterator[Finding]:
    told: set[tuple[str, str]] = set()
    for match in words(text):
        told.add((match.reason, match.span))
        yield Finding.of(path, match.line, match.span, match.reason, within=match.within)
    if path.endswith(".json"):
        for name, one in texts(read(text)):
            # the string as an agent reads it: an escape such as \u202e hides nothing here
            for match in words(one):
                if (match.reason, match.span) not in told:
                    yield Finding.of(path, line_of(text, name), match.span, match.reason, within=match.within)

"""Three-way merge of harness trees: what a candidate changed in the release that it was made from, put onto what serves now.

Two changes clash where both touch the same lines, or the same value of a JSON file, in different ways; nothing is then merged, and each
clash is named. New list items or new sections at the same place are independent of each other, and both are kept.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from daemon.harness_tree import HarnessTree
from daemon.records import JSON, JSONObject

_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\S")
_MOST_COMPARED = 4_000_000
"""Lines of one side times lines of the other: files of many equal lines would keep a thread busy for minutes."""


@dataclass(frozen=True, slots=True)
class Clash:
    """One place that both changed. `was`, `now` and `wanted` are texts; None: not there."""

    path: str
    where: str  # "line 12", `sampling.temperature`, or "" for the whole file
    was: str | None
    now: str | None  # as it serves
    wanted: str | None  # as the candidate has it


def merge_trees(was: HarnessTree, now: HarnessTree, wanted: HarnessTree) -> tuple[HarnessTree, tuple[Clash, ...]]:
    """`now` with what leads from `was` to `wanted`; and what does not fit, which is left as it is in `now`."""
    files = dict(now.files)
    clashes: list[Clash] = []
    for path in sorted({*was.files, *now.files, *wanted.files}):
        before, serves, asked = (tree.files.get(path) for tree in (was, now, wanted))
        if asked in (before, serves):
            continue
        if serves == before:
            text, found = asked, list[Clash]()
        elif serves is None or asked is None:
            text, found = serves, [Clash(path, "", before, serves, asked)]
        else:
            text, found = _merge_file(path, before, serves, asked)
        clashes += found
        files.pop(path, None)
        if text is not None:
            files[path] = text
    return HarnessTree(files), tuple(clashes)


def _merge_file(path: str, was: str | None, now: str, wanted: str) -> tuple[str, list[Clash]]:
    parsed = [_object(text) for text in (was or "{}", now, wanted)] if path.endswith(".json") else []
    objects = [one for one in parsed if one is not None]
    if len(objects) == 3:
        merged, clashes = _merge_objects(path, "", *objects)
        return json.dumps(merged, indent=1, ensure_ascii=False) + "\n", clashes
    lines, clashes = _merge_lines(path, (was or "").split("\n"), now.split("\n"), wanted.split("\n"))
    return "\n".join(lines), clashes


def _object(text: str) -> JSONObject | None:
    try:
        value: JSON = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _merge_objects(
    path: str, below: str, was: Mapping[str, JSON], now: Mapping[str, JSON], wanted: Mapping[str, JSON]
) -> tuple[JSONObject, list[Clash]]:
    merged: JSONObject = dict(now)
    clashes: list[Clash] = []
    for key in dict.fromkeys([*now, *wanted, *was]):
        before, serves, asked = ((side.get(key), key in side) for side in (was, now, wanted))
        if asked in (before, serves):
            continue
        name = f"{below}.{key}" if below else key
        if isinstance(serves[0], dict) and isinstance(asked[0], dict):
            merged[key], found = _merge_objects(path, name, before[0] if isinstance(before[0], dict) else {}, serves[0], asked[0])
            clashes += found
        elif serves != before:
            clashes.append(Clash(path, name, *(_shown(side[key]) if key in side else None for side in (was, now, wanted))))
        elif key in wanted:
            merged[key] = wanted[key]
        else:
            del merged[key]
    return merged, clashes


def _shown(value: JSON) -> str:
    return json.dumps(value, ensure_ascii=False)


def _merge_lines(path: str, was: Sequence[str], now: Sequence[str], wanted: Sequence[str]) -> tuple[list[str], list[Clash]]:
    if len(was) * max(len(now), len(wanted)) > _MOST_COMPARED:
        return list(now), [Clash(path, "", "\n".join(was), "\n".join(now), "\n".join(wanted))]
    merged: list[str] = []
    clashes: list[Clash] = []
    at_was = at_now = at_wanted = 0
    for start, end, now_start, wanted_start in _shared(was, now, wanted):
        before, serves, asked = was[at_was:start], now[at_now:now_start], wanted[at_wanted:wanted_start]
        if serves == before:
            merged += asked
        elif asked in (before, serves):
            merged += serves
        elif not before and _independent(serves, asked):
            known = set(serves)
            merged += [*serves, *(line for line in asked if not (line in known and _ITEM.match(line)))]
        else:
            merged += serves
            clashes.append(Clash(path, f"line {at_now + 1}", *("\n".join(part) if part else None for part in (before, serves, asked))))
        merged += was[start:end]
        at_was, at_now, at_wanted = end, now_start + end - start, wanted_start + end - start
    return merged, clashes


def _shared(was: Sequence[str], now: Sequence[str], wanted: Sequence[str]) -> Iterator[tuple[int, int, int, int]]:
    """Runs of lines that all three have, in order: start and end in `was`, start in `now`, start in `wanted`; an empty one at the end."""
    left = SequenceMatcher(None, was, now, autojunk=False).get_matching_blocks()
    right = SequenceMatcher(None, was, wanted, autojunk=False).get_matching_blocks()
    one = two = 0
    while one < len(left) and two < len(right):
        a, b = left[one], right[two]
        start, end = max(a.a, b.a), min(a.a + a.size, b.a + b.size)
        if start < end:
            yield start, end, a.b + start - a.a, b.b + start - b.a
        if a.a + a.size < b.a + b.size:
            one += 1
        else:
            two += 1
    yield len(was), len(was), len(now), len(wanted)


def _independent(one: Sequence[str], other: Sequence[str]) -> bool:
    """Whether both add whole list items, or both whole sections."""
    return any(all(_is_whole(part, kind) for part in (one, other)) for kind in ("item", "section"))


def _is_whole(lines: Sequence[str], kind: str) -> bool:
    written = [line for line in lines if line.strip()]
    if kind == "section":
        return bool(written) and written[0].startswith("## ")
    return bool(written) and all(_ITEM.match(line) for line in written)

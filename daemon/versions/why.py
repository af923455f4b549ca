"""Which release brought a line, or a LoRA, and took it out again.

A line is found by its words, whatever its case, its white space and the mark that begins it as a list's item; a text of several lines
where a file holds all of them. What a JSON file says is searched as the texts that it holds. Where no line holds the words, the
nearest ones are named.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from dulwich.objects import ObjectID

from daemon.errors import BadRequest
from daemon.harness_tree import SERVING_HINTS_PATH
from daemon.records import JSON
from daemon.versions.change import lora_words
from daemon.versions.history import FileStep, History, Step
from daemon.versions.release import Release
from daemon.versions.repository import Repository

LORA: Final = "lora"
"""The word that asks for the weights."""
_MARK = re.compile(r"^\s*(?:[-*+>#]+|\d+[.)])\s+")
_WORD = re.compile(r"\w+")
_LIKE_ENOUGH: Final = 0.75
_LIKE_AT_ALL: Final = 0.4
_NEAREST: Final = 5
_COMPARED: Final = 40  # lines that share the most words; only these are compared letter by letter
_LONGEST: Final = 2000  # characters of a line that is compared with others


class Match(StrEnum):
    EXACT = "exact"
    NEAR = "near"  # another line, much like it
    LORA = "lora"
    NONE = "none"


class EventKind(StrEnum):
    BROUGHT = "brought"
    REMOVED = "removed"
    BACK = "brought back"


@dataclass(frozen=True, slots=True)
class Event:
    release: Release
    kind: EventKind
    path: str
    line: str  # as the file holds it
    number: int | None  # of the line, from 1; None in JSON
    source: str = ""  # the receipt that a demonstration came from


@dataclass(frozen=True, slots=True)
class Near:
    path: str
    line: str
    release_id: str  # that brought it first
    likeness: float  # 0 … 1


@dataclass(frozen=True, slots=True)
class Answer:
    text: str
    match: Match
    events: tuple[Event, ...] = ()  # oldest first
    serving: bool = False  # what serves holds it
    nearest: tuple[Near, ...] = ()


@dataclass(frozen=True, slots=True)
class _Found:
    line: str
    number: int | None


@dataclass(slots=True)
class _Search:
    """One question: the words, and what was read for it."""

    repository: Repository
    needles: tuple[str, ...]
    seen: dict[tuple[ObjectID, str], _Found | None] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)  # lines as they are compared; releases share most of theirs

    def find(self, path: str, blob_id: ObjectID | None) -> _Found | None:
        """The first line of the file that holds the text, if the file holds all of it."""
        if blob_id is None:
            return None
        key = blob_id, path.rpartition(".")[2]
        if key not in self.seen:
            self.seen[key] = self._look(path, self.repository.reader.blob(blob_id).decode(errors="replace"))
        return self.seen[key]

    def _look(self, path: str, text: str) -> _Found | None:
        if not path.endswith(".json") and not all(_longest_word(needle) in text.casefold() for needle in self.needles):
            return None
        lines = [(number, line, self._plain(line)) for number, line in lines_of(path, text)]
        if not all(any(needle in own for _, _, own in lines) for needle in self.needles):
            return None
        return next(_Found(line, number) for number, line, own in lines if self.needles[0] in own)

    def _plain(self, line: str) -> str:
        known = self.plain.get(line)
        if known is None:
            known = self.plain[line] = plain(line)
        return known


def why(repository: Repository, history: History, scenario: str, text: str) -> Answer:
    """Everything that happened to `text` in the chain; where nothing did, in what is held or was rejected.

    Raises:
        BadRequest: there is no word in `text`. DataError: the repository is damaged.
    """
    if text.strip().casefold() == LORA:
        return _of_lora(repository, history, scenario, text)
    needles = tuple(own for line in text.splitlines() if (own := plain(line)))
    if not any(_WORD.search(needle) for needle in needles):
        raise BadRequest("Name some words of the line that you mean.", 'Such as: reef why "run the tests first"', param="text")
    answer = _exact(repository, history, scenario, text, needles)
    if answer.events:
        return answer
    nearest = _nearest(repository, history, scenario, " ".join(needles))
    if nearest and nearest[0].likeness >= _LIKE_ENOUGH:
        found = _exact(repository, history, scenario, text, (plain(nearest[0].line),))
        return Answer(text, Match.NEAR, found.events, found.serving, nearest)
    return Answer(text, Match.NONE, nearest=nearest)


def plain(line: str) -> str:
    """A line as it is compared with others: without its mark, its case and its white space."""
    return " ".join(_MARK.sub("", line, count=1).split()).casefold()


def lines_of(path: str, text: str) -> Iterator[tuple[int | None, str]]:
    """Each line that says something, with its number; of JSON the lines of the texts in it."""
    if path.endswith(".json"):
        try:
            yield from ((None, line) for line in _texts(json.loads(text)) if line.strip())
            return
        except (ValueError, RecursionError):
            pass  # then as any other text
    yield from ((number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip())


def _texts(value: JSON) -> Iterator[str]:
    if isinstance(value, str):
        yield from value.splitlines()
    elif isinstance(value, list | dict):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _exact(repository: Repository, history: History, scenario: str, text: str, needles: tuple[str, ...]) -> Answer:
    search = _Search(repository, needles)
    events: list[Event] = []
    known, holding = set[str](), set[str]()  # paths that ever held it, and that do
    releases = _Releases(repository, scenario)
    for step in history.steps(scenario):
        for change in step.files:
            event = _event(search, releases, step, change, change.path in known or bool(known and not holding))
            if event is not None:
                events.append(event)
                known.add(change.path)
                (holding.discard if event.kind is EventKind.REMOVED else holding.add)(change.path)
    if not events:
        for candidate in (*repository.held(scenario), *repository.rejected(scenario)):
            step = history.step(candidate.commit_id)
            releases.add(candidate)
            events += [one for change in step.files if (one := _event(search, releases, step, change, False)) is not None]
    return Answer(text, Match.EXACT if events else Match.NONE, tuple(events), bool(holding))


def _event(search: _Search, releases: _Releases, step: Step, change: FileStep, again: bool) -> Event | None:
    before, after = search.find(change.path, change.before), search.find(change.path, change.after)
    if (before is None) == (after is None):
        return None
    found, kind = (after, EventKind.BACK if again else EventKind.BROUGHT) if after is not None else (before, EventKind.REMOVED)
    if found is None:
        return None
    release = releases.of(step.commit_id)
    source = _source(release, search.needles[0]) if change.path == SERVING_HINTS_PATH and kind is not EventKind.REMOVED else ""
    return Event(release, kind, change.path, found.line.strip(), found.number, source)


class _Releases:
    """Releases by their commits; the chain is read once something was found in it."""

    def __init__(self, repository: Repository, scenario: str) -> None:
        self._repository = repository
        self._scenario = scenario
        self._known: dict[str, Release] = {}

    def add(self, release: Release) -> None:
        self._known[release.commit_id] = release

    def of(self, commit_id: str) -> Release:
        if commit_id not in self._known:
            self._known.update((release.commit_id, release) for release in self._repository.chain(self._scenario))
        return self._known[commit_id]


def _source(release: Release, needle: str) -> str:
    """The receipt behind the demonstration that holds the words."""
    try:
        hints: JSON = json.loads(release.tree.files.get(SERVING_HINTS_PATH, ""))
    except (ValueError, RecursionError):
        return ""
    shown = hints.get("demonstrations") if isinstance(hints, dict) else None
    for one in shown if isinstance(shown, list) else []:
        if isinstance(one, dict) and any(needle in plain(line) for line in _texts([one.get("prompt"), one.get("reply")])):
            source = one.get("source")
            return source if isinstance(source, str) else ""
    return ""


def _of_lora(repository: Repository, history: History, scenario: str, text: str) -> Answer:
    events: list[Event] = []
    seen = set[ObjectID]()
    releases = _Releases(repository, scenario)
    now: ObjectID | None = None
    for step in history.steps(scenario):
        now = step.lora_after
        if step.lora_before == now:
            continue
        release = releases.of(step.commit_id)
        if now is None or release.lora is None:
            events.append(Event(release, EventKind.REMOVED, LORA, "", None))
            continue
        events.append(Event(release, EventKind.BACK if now in seen else EventKind.BROUGHT, LORA, lora_words(release.lora), None))
        seen.add(now)
    return Answer(text, Match.LORA if events else Match.NONE, tuple(events), now is not None)


def _nearest(repository: Repository, history: History, scenario: str, needle: str) -> tuple[Near, ...]:
    """The lines of any release that are most like it: first by the words that they share, then letter by letter."""
    words = set(_WORD.findall(needle))
    lines: dict[str, tuple[str, str, str]] = {}  # as compared → path, line, commit
    read, raw = set[ObjectID](), set[str]()
    for step in history.steps(scenario):
        for change in step.files:
            if change.after is None or change.after in read:
                continue
            read.add(change.after)
            for _, line in lines_of(change.path, repository.reader.blob(change.after).decode(errors="replace")):
                if line not in raw:
                    raw.add(line)
                    lines.setdefault(plain(line[:_LONGEST]), (change.path, line.strip()[:_LONGEST], step.commit_id))
    lines.pop("", None)
    ranked = sorted(lines, key=lambda own: -_shared(words, own))[:_COMPARED]
    scored = sorted(((_likeness(needle, own), own) for own in ranked), reverse=True)[:_NEAREST]
    releases = _Releases(repository, scenario)
    close = [(likeness, lines[own]) for likeness, own in scored if likeness >= _LIKE_AT_ALL]
    return tuple(Near(path, line, releases.of(commit_id).id, likeness) for likeness, (path, line, commit_id) in close)


def _shared(words: set[str], line: str) -> float:
    own = set(_WORD.findall(line))
    union = words | own
    return len(words & own) / len(union) if union else 0.0


def _likeness(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one[:_LONGEST], other, autojunk=False).ratio()


def _longest_word(needle: str) -> str:
    words: Sequence[str] = _WORD.findall(needle)
    return max(words, key=len, default="")

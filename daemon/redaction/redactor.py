"""Replaces secrets in texts and JSON by `[redacted:kind]`. Redacting twice changes nothing more."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import orjson

from daemon.fingerprint import History, history
from daemon.records import JSON, JSONObject, Message
from daemon.redaction.gates import Gates, runs
from daemon.redaction.rules import RULES, RUN_CHARACTERS, Rule

_SHORTEST = 8  # no secret is shorter
_SEEN = 50_000
_MARGIN = 64
_ENCODED = re.compile(r"data:[A-Za-z0-9.+/;=-]{0,120};base64,[A-Za-z0-9+/]*={0,2}")
_LINE_START = re.compile(r"(?:\n|\\n)[ \t]{0,16}(?:- )?(?:export )?[A-Za-z0-9_.-]{0,40}\Z")


@dataclass(frozen=True, slots=True)
class Secret:
    """One span that was replaced, as it stood in the text."""

    text: str
    kind: str

    @property
    def placeholder(self) -> str:
        return f"[redacted:{self.kind}]"


class _Seen:
    """What was found clean, by a hash that is keyed anew in each process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.hashes: OrderedDict[int | tuple[int, int], None] = OrderedDict()

    def __contains__(self, key: object) -> bool:
        return key in self.hashes

    def add(self, key: int | tuple[int, int]) -> None:
        with self._lock:
            self.hashes[key] = None
            if len(self.hashes) > _SEEN:
                self.hashes.popitem(last=False)


def _mark(item: JSON) -> int | None:
    """Quicker than the fingerprint of what is as nested as a list of tools; None: not worth it, or not to be had."""
    if not isinstance(item, list | dict):
        return None
    try:
        return hash(orjson.dumps(item))
    except TypeError:  # what orjson refuses: lone surrogates, large integers
        return None


class Redactor:
    """A set of rules. Safe for several threads. `found` of its methods, where given, collects what was replaced."""

    def __init__(self, more: Sequence[Rule] = (), allow: Sequence[str] = ()) -> None:
        """
        Args:
            more: rules beside the built-in ones; they go first.
            allow: texts that are no secrets although a rule fits; a `*` at the end stands for any rest.
        """
        self._rules = tuple((rule, rule.any_case) for rule in (*more, *RULES))
        self._gates = Gates((*more, *RULES))
        self._allowed = frozenset(text for text in allow if not text.endswith("*"))
        self._allowed_starts = tuple(text[:-1] for text in allow if text.endswith("*"))
        self._seen = _Seen()  # texts, by length and hash
        self._clean = _Seen()  # whole messages, by fingerprint
        self._clean_ends = _Seen()  # conversations, by the fingerprint of their history

    def text(self, text: str, found: list[Secret] | None = None) -> tuple[str, int]:
        """`text` without secrets, and how many spans were replaced."""
        if len(text) < _SHORTEST or (len(text), hash(text)) in self._seen:
            return text, 0
        if text.startswith("data:") and _ENCODED.fullmatch(text):
            return text, 0  # an image: bytes, in which a rule can only be wrong
        redacted, count = self._apply(text, found)
        if not count:
            self._seen.add((len(text), hash(text)))
        return redacted, count

    def json(self, value: JSON, found: list[Secret] | None = None) -> tuple[JSON, int]:
        """The same for every string inside a JSON value. Unchanged values are returned as they are."""
        if isinstance(value, str):
            return self.text(value, found)
        if isinstance(value, list):
            items = [self.json(item, found) for item in value]
            count = sum(number for _, number in items)
            return ([item for item, _ in items], count) if count else (value, 0)
        if isinstance(value, dict):
            return self.object(value, found)
        return value, 0

    def object(self, value: JSONObject, found: list[Secret] | None = None) -> tuple[JSONObject, int]:
        kept = value
        count = 0
        is_short = True
        for name, item in value.items():
            plain, number = self.text(item, found) if isinstance(item, str) else self.json(item, found)
            if number:
                kept = dict(value) if kept is value else kept
                kept[name] = plain
                count += number
            is_short = is_short and len(name) < RUN_CHARACTERS
        if is_short:
            return kept, count
        names, more = self._names(value, found)
        return ({names.get(name, name): item for name, item in kept.items()} if more else kept), count + more

    def _names(self, names: Iterable[str], found: list[Secret] | None) -> tuple[dict[str, str], int]:
        """Those in which a secret stands, each with what takes its place, and how many spans that are."""
        told = {name: self.text(name, found) for name in names if len(name) >= RUN_CHARACTERS}
        changed = {name: plain for name, (plain, number) in told.items() if number}
        return changed, sum(number for _, number in told.values())

    def fields(self, value: JSONObject, found: list[Secret] | None = None) -> tuple[JSONObject, int]:
        """The same as `object`, for a request's fields: a list of tools comes back with every turn, and is known by its bytes."""
        kept: JSONObject = {}
        count = 0
        for name, item in value.items():
            known = _mark(item)
            if known is not None and known in self._clean:
                kept[name] = item
                continue
            kept[name], number = self.json(item, found)
            if known is not None and not number:
                self._clean.add(known)
            count += number
        names, more = self._names(value, found) if max(map(len, value), default=0) >= RUN_CHARACTERS else ({}, 0)
        if count + more:
            return {names.get(name, name): item for name, item in kept.items()}, count + more
        return value, 0

    def messages(
        self, messages: Sequence[Message], found: list[Secret] | None = None, known_as: History | None = None
    ) -> tuple[tuple[Message, ...], int]:
        """Messages without secrets, tool arguments and reasoning included, and how many spans were replaced.

        `known_as`: their history, where it is at hand. Messages without any secret come back as the same tuple.
        """
        past = known_as or history(messages)
        begun = past.known(self._clean_ends.hashes)  # not walked again: with every turn a conversation comes back whole
        kept = list(messages[:begun])
        count = 0
        for message, known in zip(messages[begun:], past.each[begun:], strict=True):
            if known in self._clean:
                kept.append(message)
                continue
            redacted, number = self.object(message, found)
            if not number:
                self._clean.add(known)
            kept.append(redacted)
            count += number
        if not count and past.upto:
            self._clean_ends.add(past.upto[-1])
        return (tuple(kept) if count else tuple(messages)), count

    def _apply(self, text: str, found: list[Secret] | None) -> tuple[str, int]:
        lowered = text.lower()
        rules = self._gates.open_for(text, lowered)
        return self._try(rules, text, lowered, found) if rules else (text, 0)

    def _try(self, rules: int, text: str, lowered: str, found: list[Secret] | None) -> tuple[str, int]:
        """Apply the rules of these bits, in order."""
        count = 0
        in_runs = runs(text) if rules & self._gates.in_run else ""
        while rules:
            number = (rules & -rules).bit_length() - 1
            rules ^= 1 << number
            rule, any_case = self._rules[number]
            where = in_runs if rule.in_run else lowered if any_case else text
            for literal in rule.literals:
                if literal in where:
                    break
            else:
                if rule.literals:
                    continue
            text, replaced = self._replace(rule, text, lowered, found)
            if replaced:
                count += replaced
                lowered = text.lower()
                rules = self._gates.all >> (number + 1) << (number + 1)  # a placeholder may open what was shut
        return text, count

    def _replace(self, rule: Rule, text: str, lowered: str, found: list[Secret] | None) -> tuple[str, int]:
        parts: list[str] = []
        end = count = 0
        for match in _matches(rule, text, lowered if rule.any_case else text):
            start, stop = _span(match)
            secret = text[start:stop]
            if start < end or not secret or secret in self._allowed or secret.startswith(self._allowed_starts):
                continue
            span = Secret(secret, rule.kind)
            if found is not None:
                found.append(span)
            parts += (text[end:start], span.placeholder)
            end = stop
            count += 1
        if not count:
            return text, 0
        parts.append(text[end:])
        return "".join(parts), count


def _matches(rule: Rule, text: str, where: str) -> Iterator[re.Match[str]]:
    """Matches of the rule in order. `where` is `text`, or its lower case."""
    if not rule.literals or len(where) != len(text):  # a few letters get longer in lower case: then places do not compare
        for match in rule.pattern.finditer(text):
            if not rule.line or _alone(text, match.start()):
                yield match
        return
    places: list[int] = []
    for literal in rule.literals:
        at = where.find(literal)
        while at >= 0:
            places.append(at)
            at = where.find(literal, at + len(literal))
    end = 0
    for place in sorted(places):
        found = rule.pattern.match(text, place) if place >= end else None
        if found is not None and (not rule.line or _alone(text, place)):
            yield found
            end = found.end()


def _alone(text: str, place: int) -> bool:
    """Whether the line, or the escaped line, holds only the rest of a name before `place`."""
    before = text[max(0, place - _MARGIN) : place]
    return _LINE_START.search(before if len(before) == _MARGIN else "\n" + before) is not None


def _span(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret stands."""
    groups = match.re.groupindex
    for name in ("secret", "bare"):
        if name in groups and match.start(name) >= 0:
            return match.span(name)
    return match.span()

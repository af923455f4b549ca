"""A number for a JSON value: equal values have equal numbers, unequal ones different numbers (but for a chance of 1 in 2^60).

For memories of what was seen before. Built on Python's own string hash (64 bits, keyed anew in each process), which each string keeps
once it is computed: the second look at a long text costs nothing. Never store it: the next process has other numbers.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from daemon.records import JSON, Message


def fingerprint(value: JSON) -> int:
    """Tells 1 from true and from 1.0, and an object from another with the same fields in another order."""
    if isinstance(value, dict):
        fields = tuple(value.items())
        for _, item in fields:
            if type(item) is not str:
                return hash(tuple((name, item if type(item) is str else fingerprint(item)) for name, item in fields))
        return hash(fields)  # most messages: nothing but texts
    if isinstance(value, str):
        return hash(value)
    if isinstance(value, list):
        return hash(("[", *map(fingerprint, value)))
    return hash((type(value).__name__, repr(value)))


@dataclass(slots=True)
class History:
    """The fingerprints of a conversation: it comes back whole with every turn, and what is remembered of it is found from its end."""

    each: Sequence[int]  # of the messages
    upto: Sequence[int]  # of each with all before it

    def known(self, ends: Container[object]) -> int:
        """How many messages the longest beginning has that is in `ends`."""
        count = len(self.upto)
        for end in reversed(self.upto):
            if end in ends:
                return count
            count -= 1
        return 0


def history(messages: Sequence[Message]) -> History:
    each: list[int] = []
    upto: list[int] = []
    before = 0
    for message in messages:
        fields = tuple(message.items())
        plain = len(fields) == 2 and type(fields[0][1]) is type(fields[1][1]) is str  # as most
        one = hash(fields) if plain else fingerprint(message)
        before = hash((before, one))
        each.append(one)
        upto.append(before)
    return History(each, upto)

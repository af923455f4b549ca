"""Pieces of Lark grammars, in llguidance's dialect."""

from __future__ import annotations

import json

from daemon.records import JSON

MOST_CALLS = 8
"""In one forced reply: a small model goes on calling until it is stopped."""


def quoted(text: str) -> str:
    """A Lark string that matches `text`."""
    return json.dumps(text, ensure_ascii=False)


def schema(value: JSON) -> str:
    """A term that matches JSON texts of a schema."""
    return f"%json {json.dumps(value, ensure_ascii=False)}"


def joined(terms: list[str]) -> str:
    """Terms one after the other."""
    return " ".join(term for term in terms if term)


def around(before: str, value: JSON, after: str) -> str:
    """JSON of a schema between two texts."""
    return joined([text_term(before), schema(value), text_term(after)])


def text_term(text: str) -> str:
    """A term that matches `text`; nothing for nothing."""
    return quoted(text) if text else ""


class Rules:
    """Further rules of a grammar, which terms name."""

    def __init__(self, *rules: str) -> None:
        self.lines = list(rules)
        self._options: dict[str, str] = {}

    def add(self, body: str) -> str:
        """A new rule's name."""
        name = self.reserve()
        self.fill(name, body)
        return name

    def reserve(self, options: str = "") -> str:
        """The name of a rule that `fill` defines later."""
        name = f"part_{len(self._options)}"
        self._options[name] = options
        return name

    def fill(self, name: str, body: str) -> None:
        self.lines.append(f"{name}{self._options[name]}: {body}")

    def sequence(self, items: list[tuple[str, bool]], separator: str) -> str:
        """A term for items in order with a separator between any two; those that need not be there are marked True."""
        # From the last to the first: what may follow with something before it, and with nothing before it.
        following = first = self.add('""')
        for item, optional in reversed(items):
            skipped = (f" | {following}", f" | {first}") if optional else ("", "")
            after = self.add(joined([text_term(separator), item, following]) + skipped[0])
            first = self.add(joined([item, following]) + skipped[1])
            following = after
        return first


def calls(
    choices: list[str], *, parallel: bool, before: str = "", between: str = "", after: str = "", rules: list[str] | None = None
) -> str:
    """The whole grammar: one of `choices` (each a sequence of terms), or several of them with `between` between two.

    Args:
        choices: one a tool.
        before, between, after: plain text.
        rules: further rules that the choices name.
    """
    more = f"({joined([text_term(between), 'call'])}){{0,{MOST_CALLS - 1}}}" if parallel else ""
    lines = [
        "start: " + joined([text_term(before), "call", more, text_term(after)]),
        "call: " + " | ".join(f"call_{index}" for index in range(len(choices))),
        *(f"call_{index}: {choice}" for index, choice in enumerate(choices)),
        *(rules or []),
    ]
    return "\n".join(lines) + "\n"

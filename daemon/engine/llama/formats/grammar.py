"""Pieces of Lark grammars, in llguidance's dialect."""

from __future__ import annotations

import json

from daemon.records import JSON


def quoted(text: str) -> str:
    """A Lark string that matches `text`."""
    return json.dumps(text, ensure_ascii=False)


def schema(value: JSON) -> str:
    """A term that matches JSON texts of a schema."""
    return f"%json {json.dumps(value, ensure_ascii=False)}"


def around(before: str, value: JSON, after: str) -> str:
    """Terms that match JSON of a schema between two texts."""
    return " ".join([quoted(before), schema(value), *([quoted(after)] if after else [])])


def calls(choices: list[str], *, parallel: bool, before: str = "", between: str = "", after: str = "") -> str:
    """The whole grammar: one of `choices` (each a sequence of terms), or several of them with `between` between two.

    Args:
        choices: one a tool.
        before, between, after: plain text.
    """
    ends = [quoted(text) if text else "" for text in (before, between, after)]
    more = f"({ends[1]} call)*" if parallel else ""
    rules = [f"start: {ends[0]} call {more} {ends[2]}", "call: " + " | ".join(f"call_{index}" for index in range(len(choices)))]
    return "\n".join([*rules, *(f"call_{index}: {choice}" for index, choice in enumerate(choices))]) + "\n"

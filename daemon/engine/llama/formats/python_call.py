"""Calls in Python's way: `read(path="a.py", limit=3)`. Literals only; nothing is run."""

from __future__ import annotations

import json
import re

from daemon import json_text
from daemon.engine.llama.formats.source import CutOff, Malformed, Source, Steps

_NAME = re.compile(r"\w")
_WORD = re.compile(r"[\w.+-]")
_WORDS = {"True": "true", "False": "false", "None": "null", "true": "true", "false": "false", "null": "null"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "\n": ""}
_HEX = {"x": 2, "u": 4, "U": 8}
_HEX_DIGIT = re.compile(r"[0-9a-fA-F]")


def json_of_literal(text: str) -> str | None:
    """The JSON text of a Python literal; None for what is none."""
    source = Source()
    source.feed(text)
    source.end()
    steps = _value(source, 0)
    try:
        next(steps)  # never asks for more: the source has ended
    except StopIteration as result:
        value: str = result.value
        return value if source.exhausted else None
    except Malformed:
        pass
    return None


def arguments_of(source: Source) -> Steps[str]:
    """After the opening parenthesis, up to the closing one: the arguments as the text of a JSON object."""
    members: list[str] = []
    names: set[str] = set()
    yield from source.space()
    while not (yield from source.maybe(")")):
        if members:
            yield from source.literal(",")
            yield from source.space()
            if (yield from source.maybe(")")):
                break
        name = yield from source.matching(_NAME)
        yield from source.space()
        yield from source.literal("=")
        if not name or name in names:
            raise Malformed("gives an argument without a name, or one twice")
        names.add(name)
        value = yield from _value(source, 0)
        members.append(f"{json.dumps(name)}: {value}")
        yield from source.space()
    return "{" + ", ".join(members) + "}"


def _value(source: Source, depth: int) -> Steps[str]:
    if depth > json_text.MAX_DEPTH:
        raise Malformed("is nested too deeply")
    yield from source.space()
    opening = yield from source.maybe('"', "'", "[", "(", "{")
    if opening in ('"', "'"):
        return json.dumps((yield from text_of(source, opening)), ensure_ascii=False)
    if opening in ("[", "("):
        return "[" + ", ".join((yield from _items(source, "]" if opening == "[" else ")", depth, keyed=False))) + "]"
    if opening == "{":
        return "{" + ", ".join((yield from _items(source, "}", depth, keyed=True))) + "}"
    word = yield from source.matching(_WORD)
    try:
        json_text.parse(_WORDS.get(word, word))
    except ValueError:
        raise CutOff if source.exhausted else Malformed("has an argument that is no literal") from None
    return _WORDS.get(word, word)


def _items(source: Source, close: str, depth: int, *, keyed: bool) -> Steps[list[str]]:
    items: list[str] = []
    yield from source.space()
    while not (yield from source.maybe(close)):
        if items:
            yield from source.literal(",")
            yield from source.space()
            if (yield from source.maybe(close)):
                break
        item = yield from _value(source, depth + 1)
        yield from source.space()
        if keyed:
            if not item.startswith('"'):
                raise Malformed("has a key that is no text")
            yield from source.literal(":")
            value = yield from _value(source, depth + 1)
            item = f"{item}: {value}"
            yield from source.space()
        items.append(item)
    return items


def text_of(source: Source, quote: str) -> Steps[str]:
    """After its opening quote; one of three quotes is not read."""
    parts: list[str] = []
    while True:
        text, mark = yield from source.until(quote, "\\")
        parts.append(text)
        if mark == quote:
            return "".join(parts)
        escaped = yield from source.character()
        if escaped in _HEX:
            digits = ""
            for _ in range(_HEX[escaped]):
                digit = yield from source.character()
                if not _HEX_DIGIT.fullmatch(digit):
                    raise Malformed("has a broken escape in a text")
                digits += digit
            if int(digits, 16) > 0x10FFFF or 0xD800 <= int(digits, 16) < 0xE000:
                raise Malformed("has a broken escape in a text")
            parts.append(chr(int(digits, 16)))
        else:
            parts.append(_ESCAPES.get(escaped, escaped if escaped in "\\'\"" else "\\" + escaped))

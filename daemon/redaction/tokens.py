"""Token ids without secrets: the tokens that spell one are replaced by those of its placeholder, and masked.

What is left spells the redacted text, and every other token, with its log-probability, stays as the engine computed it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from daemon.records import TokenTrace
from daemon.redaction.redactor import Secret

_SHORTEST_TRACE = 8
"""No so many bytes of a secret in a row may be left."""


class Spelling(ABC):
    """What is asked of an engine here."""

    @abstractmethod
    async def pieces(self, tokens: list[int]) -> list[bytes]:
        """The bytes that each token spells, control tokens too."""

    @abstractmethod
    async def tokenize(self, text: str) -> list[int]:
        """Token ids of a plain text."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A prompt or a completion after the replacement; `spans` are half-open, over `tokens`."""

    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    spans: tuple[tuple[int, int], ...]


async def masked_trace(trace: TokenTrace, secrets: Iterable[Secret], spelling: Spelling) -> TokenTrace | None:
    """`trace` without the secrets; None where they cannot be found in it for certain.

    A secret may stand in the ids otherwise than in the record, as a template writes it (escaped in JSON, unescaped). What of it
    is found in neither form, and yet has eight bytes in common with the ids, makes the whole trace unusable.
    """
    forms = _forms(secrets)
    parts = []
    for tokens, logprobs in ((trace.prompt, ()), (trace.completion, trace.logprobs)):
        part = await _replaced(tokens, logprobs, forms, spelling)
        if part is None:
            return None
        parts.append(part)
    prompt, completion = parts
    shift = len(prompt.tokens)
    masked = (*prompt.spans, *((shift + start, shift + stop) for start, stop in completion.spans))
    return TokenTrace(prompt.tokens, completion.tokens, completion.logprobs, masked)


async def _replaced(
    tokens: Sequence[int], logprobs: Sequence[float], forms: Sequence[tuple[bytes, bytes]], spelling: Spelling
) -> _Part | None:
    pieces = await spelling.pieces(list(tokens))
    text = b"".join(pieces)
    found = _found(text, forms)
    if not found:
        return None if _left(text, forms) else _Part(tuple(tokens), tuple(logprobs), ())
    starts = [0, *accumulate(len(piece) for piece in pieces)]
    ids: list[int] = []
    values: list[float] = []
    spans: list[tuple[int, int]] = []
    spelled: list[bytes] = []
    done = 0  # tokens that are dealt with
    for first, last, words in _by_token(found, text, starts):
        ids += tokens[done:first]
        values += logprobs[done:first]
        spelled += pieces[done:first]
        instead = await spelling.tokenize(words.decode(errors="replace"))
        spans.append((len(ids), len(ids) + len(instead)))
        ids += instead
        values += [0.0] * (len(instead) if logprobs else 0)
        spelled.append(words)
        done = last
    ids += tokens[done:]
    values += logprobs[done:]
    spelled += pieces[done:]
    return None if _left(b"".join(spelled), forms) else _Part(tuple(ids), tuple(values), tuple(spans))


def _forms(secrets: Iterable[Secret]) -> list[tuple[bytes, bytes]]:
    """How each secret may be spelled, with its placeholder; the longest first, since one may lie in another."""
    forms: dict[str, str] = {}
    for secret in secrets:
        escaped = [json.dumps(secret.text, ensure_ascii=ascii_only)[1:-1] for ascii_only in (False, True)]
        for text in (secret.text, *escaped, *(json.dumps(form)[1:-1] for form in escaped), *_unescaped(secret.text)):
            if text.strip():
                forms.setdefault(text, secret.placeholder)
    return sorted(((text.encode(errors="replace"), put.encode()) for text, put in forms.items()), key=lambda form: -len(form[0]))


def _unescaped(text: str) -> list[str]:
    """As the text reads once JSON was parsed, once or twice."""
    found: list[str] = []
    for _ in range(2):
        try:
            value = json.loads(f'"{text}"')
        except ValueError:
            break
        if not isinstance(value, str) or value == text:
            break
        found.append(value)
        text = value
    return found


def _found(text: bytes, forms: Sequence[tuple[bytes, bytes]]) -> list[tuple[int, int, bytes]]:
    """Where the secrets stand: (start, end, placeholder) in bytes, ascending, none in another."""
    taken: list[tuple[int, int, bytes]] = []
    for form, placeholder in forms:
        at = text.find(form)
        while at >= 0:
            end = at + len(form)
            if not any(start < end and at < stop for start, stop, _ in taken):
                taken.append((at, end, placeholder))
            at = text.find(form, end)
    return sorted(taken)


def _by_token(found: Sequence[tuple[int, int, bytes]], text: bytes, starts: Sequence[int]) -> list[tuple[int, int, bytes]]:
    """(first token, behind the last token, what is spelled instead): secrets that share a token are replaced together."""
    groups: list[tuple[int, int, bytes]] = []
    reached = 0  # bytes of the text that the last group has dealt with
    for start, end, placeholder in found:
        first, last = bisect_right(starts, start) - 1, bisect_right(starts, end - 1)
        while _inside_character(text, starts[first]):
            first -= 1
        while _inside_character(text, starts[last]):
            last += 1
        if groups and first < groups[-1][1]:
            before_first, before_last, words = groups.pop()
            kept = words[: len(words) - (starts[before_last] - reached)]
            words, first, last = kept + text[reached:start], before_first, max(before_last, last)
        else:
            words = text[starts[first] : start]
        groups.append((first, last, words + placeholder + text[end : starts[last]]))
        reached = end
    return groups


def _inside_character(text: bytes, at: int) -> bool:
    return at < len(text) and text[at] & 0xC0 == 0x80


def _left(text: bytes, forms: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether any eight bytes of a secret still stand in the text."""
    for form, _ in forms:
        width = min(_SHORTEST_TRACE, len(form))
        if any(form[at : at + width] in text for at in range(len(form) - width + 1)):
            return True
    return False

"""From a record to its entry: everything that needs no row, so that a receipt waits for the journal alone.

Runs on the writer's thread. It remembers what earlier entries have brought: a history that is resent is recognised by `fingerprint` and
costs neither JSON nor hashing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Generic, TypeVar

from daemon.experience.entry import Entry, Piece
from daemon.experience.loading import STEPS
from daemon.experience.packing import BLOCK_TOKENS, LARGE_BYTES, digest, pack_trace, to_json, token_bytes
from daemon.experience.sessions.keys import conversation_key, reply_key, text_of
from daemon.experience.sessions.signals import observe
from daemon.experience.sessions.user_words import own_words
from daemon.experience.statements import clean
from daemon.fingerprint import History, fingerprint, history
from daemon.records import JSON, Inference, JSONObject, Message, Sampling, Step, TurnKind

_REMEMBERED = 50_000
_TITLE_CHARACTERS = 120
_PLAIN_SAMPLING = asdict(Sampling())
_PLACES = {step: place for place, step in enumerate(STEPS)}
_OBSERVING = (Step.CONTINUE, Step.BRANCH)
_NO_PARENT = b""
K = TypeVar("K")
V = TypeVar("V")


class Remembered(OrderedDict[K, V], Generic[K, V]):
    """The last 50,000, as `trim` leaves them: between two batches, so that a batch finds what it has put in."""

    def trim(self) -> None:
        while len(self) > _REMEMBERED:
            self.popitem(last=False)


class Preparer:
    """`forget` whenever an entry that it made did not last, or rows were removed: what it remembers may stand nowhere then."""

    def __init__(self) -> None:
        self._messages: Remembered[tuple[bytes, int], bytes] = Remembered()  # address by the parent's and the message's fingerprint
        self._ends: Remembered[int, bytes] = Remembered()  # addresses of conversations, by the fingerprint of their history
        self._blocks: Remembered[bytes, None] = Remembered()
        self._blobs: Remembered[bytes, None] = Remembered()  # by content hash
        self._values: Remembered[int, bytes] = Remembered()  # content hash by fingerprint
        self._titled: Remembered[tuple[str, str], None] = Remembered()
        self._memories = (self._messages, self._ends, self._blocks, self._blobs, self._values, self._titled)

    def forget(self) -> None:
        for memory in self._memories:
            memory.clear()

    def trim(self) -> None:
        for memory in self._memories:
            memory.trim()

    def entry(self, inference: Inference, past: History, reply_to: Callable[[Inference], Message | None]) -> Entry:
        """
        Args:
            inference: as it may be stored.
            past: the history of its messages.
            reply_to: what was replied in the turn that a record follows.
        """
        messages: list[Piece] = []
        prompt = self._add_conversation(messages, inference.messages, past)
        changed = inference.effective_messages
        effective = _NO_PARENT if changed is None else self._add_conversation(messages, changed, history(changed))
        reply = self._add_message(messages, inference.reply, prompt, fingerprint(inference.reply))
        blobs: list[tuple[bytes, bytes]] = []
        fields: dict[str, JSON] = {}
        large: list[tuple[str, bytes]] = []
        for name, value in inference.request.items():
            content = self._add_value(blobs, value)
            if content is None:
                fields[name] = value
            else:
                large.append((name, content))
        blocks: list[Piece] = []
        block = trace = b""
        if (tokens := inference.tokens) is not None:
            block, whole = self._add_tokens(blocks, tokens.prompt)
            trace = pack_trace(tokens.prompt[whole:], tokens.completion, tokens.logprobs)
        return Entry(
            id=clean(inference.id),
            scenario=inference.scenario,
            session=clean(inference.session),
            created_at=inference.created_at,
            kind=inference.kind.value,
            status=inference.status.value,
            finish_reason=clean(inference.finish_reason),
            release=clean(inference.release_id),
            lora="" if inference.lora_id is None else clean(inference.lora_id),
            model=clean(inference.model),
            wire=clean(inference.wire),
            step=_PLACES[inference.lineage.step],
            follows=clean(inference.lineage.follows),
            title=self._title(inference),
            observed=" ".join(_observed(inference, reply_to)),
            detail=to_json(_detail(inference, fields)),
            reply_key=reply_key(conversation_key(inference.messages, past), inference.reply),
            prompt=prompt,
            effective=effective,
            reply=reply,
            block=block,
            trace=trace,
            large=large,
            blobs=blobs,
            messages=messages,
            blocks=blocks,
        )

    def _add_conversation(self, pieces: list[Piece], messages: Sequence[Message], past: History) -> bytes:
        """The address of the last message; empty for none. `past` is their history."""
        begun = past.known(self._ends)
        address = self._ends[past.upto[begun - 1]] if begun else _NO_PARENT
        for message, mark in zip(messages[begun:], past.each[begun:], strict=True):
            address = self._add_message(pieces, message, address, mark)
        if messages:
            self._ends[past.upto[-1]] = address
        return address

    def _add_message(self, pieces: list[Piece], message: Message, parent: bytes, mark: int) -> bytes:
        """`mark`: its fingerprint."""
        seen = (parent, mark)
        known = self._messages.get(seen)
        if known is not None:
            return known
        content = self._values.get(mark)
        body = b""  # the same long text often comes below another parent
        if content is None or content not in self._blobs:
            body = to_json(message)
            content = digest(body)
            if len(body) > LARGE_BYTES:
                self._values[mark] = content
                self._blobs[content] = None
        address = self._messages[seen] = digest(parent, content)
        pieces.append(Piece(address, parent, content, body))
        return address

    def _add_value(self, blobs: list[tuple[bytes, bytes]], value: JSON) -> bytes | None:
        """The content hash of a value that is kept as a blob; None: it is small, and its owner keeps it."""
        if not isinstance(value, dict | list | str) or (isinstance(value, str) and len(value) * 4 <= LARGE_BYTES):
            return None
        body = to_json(value)  # quicker than the fingerprint of what is as nested as a list of tools
        if len(body) <= LARGE_BYTES:
            return None
        seen = hash(body)
        content = self._values.get(seen)
        if content is not None and content in self._blobs:
            return content
        content = self._values[seen] = digest(body)
        self._blobs[content] = None
        blobs.append((content, body))
        return content

    def _add_tokens(self, pieces: list[Piece], tokens: Sequence[int]) -> tuple[bytes, int]:
        """The address of the last whole block, and how many ids lie in whole blocks."""
        whole = len(tokens) // BLOCK_TOKENS * BLOCK_TOKENS
        parent = _NO_PARENT
        for start in range(0, whole, BLOCK_TOKENS):
            data = token_bytes(tokens[start : start + BLOCK_TOKENS])
            address = digest(parent, data)
            if address not in self._blocks:
                self._blocks[address] = None
                pieces.append(Piece(address, parent, b"", data))
            parent = address
        return parent, whole

    def _title(self, inference: Inference) -> str:
        """Empty where the session has one already, as far as is remembered."""
        key = (inference.scenario, inference.session)
        if inference.kind is not TurnKind.TURN or key in self._titled:
            return ""
        title = title_of(inference.messages)
        if title:
            self._titled[key] = None
        return title


def _observed(inference: Inference, reply_to: Callable[[Inference], Message | None]) -> tuple[str, ...]:
    """What a request says of the turn that it follows."""
    lineage = inference.lineage
    if lineage.step not in _OBSERVING or not lineage.added:
        return ()
    return observe(inference.messages, lineage.added, None if lineage.echoed else reply_to(inference))


def _detail(inference: Inference, fields: Mapping[str, JSON]) -> JSONObject:
    """What is seldom asked for, without defaults."""
    usage = inference.usage
    detail: JSONObject = {
        "usage": [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.reasoning_tokens],
        "ms": [inference.first_token_ms, inference.total_ms],
    }
    masked = inference.tokens.masked if inference.tokens is not None else ()
    more: JSONObject = {
        "sampling": _settings(inference.sampling),
        "request": dict(fields),
        "tags": dict(inference.tags.items()),
        "error": inference.error,
        "note": inference.note,
        "cache_miss": inference.cache_miss,
        "redactions": inference.redactions,
        "masked": [list(span) for span in masked],
    }
    for name, value in more.items():
        if value:
            detail[name] = value
    return detail


def title_of(messages: Sequence[Message]) -> str:
    """What the user asked last, on one line: what stands before it in a first request are an agent's examples, files and reminders."""
    for message in reversed(messages):
        if message.get("role") == "user" and (text := own_words(message) or text_of(message.get("content")).strip()):
            return clean(" ".join(_opening(text).split())[:_TITLE_CHARACTERS])
    return ""


def _opening(text: str) -> str:
    """The first paragraph, and the one that it announces."""
    first, _, rest = text.partition("\n\n")
    second, _, _ = rest.partition("\n\n")
    return f"{first} {second}" if first.rstrip().endswith(":") else first


@lru_cache(maxsize=256)
def _settings(sampling: Sampling) -> JSONObject:
    """What differs from the defaults."""
    return {name: _plain(value) for name, value in asdict(sampling).items() if value != _PLAIN_SAMPLING[name]}


def _plain(value: object) -> JSON:
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, bool | int | float | str) else None

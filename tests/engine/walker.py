"""Replies at random under a constraint, byte by byte, without a model: whatever a grammar allows must be what was asked for."""

from __future__ import annotations

import random
from collections.abc import Mapping

import numpy as np
from llguidance import LLTokenizer

from daemon.engine.llama.formats.hermes import HermesFormat
from daemon.engine.llama.protocol import GenerateCall
from daemon.engine.llama.structure.constraint import Constraint
from daemon.engine.llama.structure.grammar_check import GrammarCheck
from daemon.engine.llama.structure.structure import Structures
from daemon.records import JSON, JSONObject

BYTES = LLTokenizer("byte")
CHECK = GrammarCheck(cpu_limit_s=1.0)
"""One process for all tests; it ends with them."""
_CLOSING = b'"}]'


class ByteVocabulary:
    """A token for each byte, and one that ends the turn."""

    size = BYTES.vocab_size
    address = 0

    def __init__(self) -> None:
        self.controls: dict[str, int] = {}

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return bytes([token]) if token < 256 else b""

    def ends(self, token: int) -> bool:
        return token == BYTES.eos_token

    def tokenize(self, text: str, *, begin: bool = False, special: bool = False) -> list[int]:
        return [self.size] if special and text in self.controls else list(text.encode())


def structures(*, controls: tuple[str, ...] = ()) -> Structures:
    """Constraints over bytes. `controls`: texts that are one token in this vocabulary."""
    vocabulary = ByteVocabulary()
    vocabulary.controls = dict.fromkeys(controls, 0)
    made = Structures(vocabulary, CHECK)  # type: ignore[arg-type]
    made._tokenizers = _AnyMarkers()
    return made


class _AnyMarkers(dict[tuple[str, ...], LLTokenizer]):
    def __contains__(self, key: object) -> bool:
        return True

    def __getitem__(self, key: tuple[str, ...]) -> LLTokenizer:
        return BYTES


def constraint(fields: Mapping[str, object], *, prompt_end: str = "", controls: tuple[str, ...] = ()) -> Constraint | None:
    """What holds the reply of a request with these fields. `controls`: texts that are one token in the vocabulary."""
    call = GenerateCall.model_validate({"id": 1, "messages": [], **fields})
    return structures(controls=controls).constraint(call, HermesFormat(), prompt_end)


def held(schema: JSON, *, prompt_end: str = "", controls: tuple[str, ...] = ()) -> Constraint:
    """What holds the reply of a request with this JSON schema."""
    wanted: JSONObject = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    rule = constraint({"response_format": wanted}, prompt_end=prompt_end, controls=controls)
    if rule is None:
        raise AssertionError("a schema leaves nothing free")
    return rule


def called(tools: list[JSONObject], choice: JSON, *, parallel: bool = True) -> Constraint:
    """What holds the reply of a request with this tool_choice."""
    rule = constraint({"tools": tools, "tool_choice": choice, "parallel_tool_calls": parallel})
    if rule is None:
        raise AssertionError("a forced call leaves nothing free")
    return rule


def walk(rule: Constraint, seed: int, limit: int = 400) -> str | None:
    """A reply at random, soon inclined to end; None if it is not at its end after `limit` bytes."""
    rng = random.Random(seed)
    out = bytearray()
    while len(out) < limit:
        allowed = _allowed(rule)
        if BYTES.eos_token in allowed and (len(allowed) == 1 or rng.random() < 0.3):
            return out.decode()
        allowed = [token for token in allowed if token < 256]
        closing = [token for token in allowed if token in _CLOSING and not out.endswith(b"\\")]
        token = rng.choice(closing if closing and rng.random() < len(out) / 60 else allowed)
        rule.accept(token)
        out.append(token)
    return None


def accepts(rule: Constraint, text: str) -> bool:
    """Whether a reply may be exactly this."""
    for byte in text.encode():
        if byte not in _allowed(rule):
            return False
        rule.accept(byte)
    return BYTES.eos_token in _allowed(rule)


def _allowed(rule: Constraint) -> list[int]:
    values = np.zeros(ByteVocabulary.size, np.float32)
    rule.restrict(values)
    return [int(token) for token in np.flatnonzero(np.isfinite(values))]

"""What following a structure costs each step, with the embedded model's own vocabulary: other streams wait for it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import psutil
import pytest
from llama_cpp import llama_cpp as native

from daemon.engine.llama.formats.hermes import HermesFormat
from daemon.engine.llama.protocol import GenerateCall
from daemon.engine.llama.structure.constraint import Constraint
from daemon.engine.llama.structure.structure import Structures
from daemon.engine.llama.vocabulary import Vocabulary
from daemon.errors import BadRequest
from daemon.models import embedded_model
from daemon.records import JSON, JSONObject

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def vocabulary() -> Iterator[Vocabulary]:
    parameters = native.llama_model_default_params()
    parameters.vocab_only = True
    model = native.llama_model_load_from_file(str(embedded_model()).encode(), parameters)
    yield Vocabulary(model)
    native.llama_model_free(model)


@pytest.fixture(scope="module")
def structures(vocabulary: Vocabulary) -> Structures:
    made = Structures(vocabulary)
    _rule(made, {"type": "null"})  # the tokenizer is built with the first
    return made


def _rule(structures: Structures, schema: JSON) -> Constraint:
    wanted: JSONObject = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    rule = structures.constraint(GenerateCall(id=1, messages=[], response_format=wanted), HermesFormat())
    assert rule is not None
    return rule


def _follow(rule: Constraint, vocabulary: Vocabulary, text: str) -> tuple[int, float]:
    """Follow a reply's beginning as far as the structure can: the steps, and the longest one's time of this thread in seconds."""
    values = np.zeros(vocabulary.size, np.float32)
    longest = 0.0
    tokens = vocabulary.tokenize(text)
    for step, token in enumerate(tokens):
        values[:] = 0
        began = time.thread_time()
        try:
            rule.restrict(values)
            assert values[token] == 0, tokens[: step + 1]
            rule.accept(token)
        except BadRequest:
            return step, max(longest, time.thread_time() - began)
        longest = max(longest, time.thread_time() - began)
    return len(tokens), longest


PERSON: JSONObject = {"type": "object", "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}}}
WORDS = "the river runs past the old mill and on to the sea, " * 30


@pytest.mark.parametrize(
    ("schema", "text", "limit_ms"),
    [
        (PERSON, '{"name": "' + WORDS + '", "tags": ["a", "b"]}', 10),
        ({"const": "c d " * 4_000}, '"' + "c d " * 200, 10),
        ({"type": "string", "maxLength": 100_000}, '"' + WORDS, 20),
        ({"type": "string", "pattern": "^(.*a){20}.{200}$"}, '"' + WORDS, 60),
        ({"type": "string", "pattern": ".*a.{300}"}, '"' + WORDS, 60),
        ({"type": "string", "pattern": "(x.{0,30}y){5}|(y.{0,30}z){5}|(e.{0,40}a.{0,30}t){6}"}, '"' + WORDS, 60),
    ],
    ids=["plain", "long constant", "long text", "pattern 1", "pattern 2", "pattern 3"],
)
def test_a_step_is_short_and_memory_is_bounded(
    structures: Structures, vocabulary: Vocabulary, schema: JSON, text: str, limit_ms: float
) -> None:
    before = psutil.Process().memory_info().rss
    steps, longest = _follow(_rule(structures, schema), vocabulary, text)
    assert longest * 1000 < limit_ms
    assert psutil.Process().memory_info().rss - before < 64 << 20
    if limit_ms < 60:
        assert steps == len(vocabulary.tokenize(text))


def test_control_tokens_are_never_part_of_a_text(structures: Structures, vocabulary: Vocabulary) -> None:
    rule = _rule(structures, {"type": "string"})
    rule.accept(vocabulary.tokenize('"')[0])
    values = np.zeros(vocabulary.size, np.float32)
    rule.restrict(values)
    allowed = set(np.flatnonzero(np.isfinite(values)).tolist())
    assert len(allowed) > 40_000 and not allowed & set(vocabulary.control_tokens)


def test_the_turn_may_end_by_every_token_that_ends_one_and_only_at_the_end(structures: Structures, vocabulary: Vocabulary) -> None:
    rule = _rule(structures, {"type": "integer", "minimum": 0, "maximum": 9})
    ends = {token for token in range(vocabulary.size) if vocabulary.ends(token)}
    for text, may_end in (("", False), ("7", True)):
        for token in vocabulary.tokenize(text):
            rule.accept(token)
        values = np.zeros(vocabulary.size, np.float32)
        rule.restrict(values)
        allowed = set(np.flatnonzero(np.isfinite(values)).tolist())
        assert allowed >= ends if may_end else not allowed & ends

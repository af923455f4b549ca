"""Whatever a grammar of forced calls lets through, the same format's parser reads as calls that fit the tools."""

from __future__ import annotations

import json
import random

import jsonschema
import numpy as np
import pytest
from llguidance import LLMatcher, LLTokenizer
from llguidance.numpy import allocate_token_bitmask, fill_next_token_bitmask

from daemon.engine.llama.formats.families import FORMATS
from daemon.engine.llama.structure.json_schema import prepared
from daemon.records import JSONObject
from tests.engine.replies import read_reply

BY_NAME = {known.name: known for known in FORMATS}
BYTES = LLTokenizer("byte")
PARAMETERS: JSONObject = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "line": {"type": "integer"},
        "mode": {"enum": ["a", "b c"]},
        "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 3},
        "where": {"$ref": "#/$defs/place"},
        "force": {"type": "boolean"},
        "label": {"type": "string", "minLength": 2, "maxLength": 4},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "extra": {},
        "options": {"type": "object"},
    },
    "required": ["path", "mode", "label"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"x": {"type": "number"}, "y": {"type": ["boolean", "null"]}, "inner": {"$ref": "#/$defs/place"}},
            "required": ["y"],
            "additionalProperties": False,
        }
    },
}
NAMED: dict[str, JSONObject] = {"edit": PARAMETERS, "list": {"type": "object"}}
TOOLS: tuple[JSONObject, ...] = tuple(
    {"type": "function", "function": {"name": name, "parameters": prepared(parameters, name)}} for name, parameters in NAMED.items()
)


SEEDS = 3
ENDING = {*b'<>"/}])\n|`', BYTES.eos_token}
ENDS = ("</parameter>", "</param>", "</arg_value>", "</｜DSML｜parameter>", "</arg_value:opensource>", "<escape>", '<|"|>', '"')


def _sample(grammar: str, seed: int, limit: int = 500) -> str | None:
    """A reply that the grammar accepts, its bytes drawn at random, what ends a text more often; None where it did not end."""
    choose = random.Random(seed)
    matcher = LLMatcher(BYTES, LLMatcher.grammar_from_lark(grammar))
    assert not matcher.get_error()
    mask = allocate_token_bitmask(1, BYTES.vocab_size)
    reply = bytearray()
    while len(reply) < limit and not matcher.is_stopped():
        end = choose.choice(ENDS).encode()
        if choose.random() < 0.3 and matcher.validate_tokens(list(end)) == len(end):
            matcher.consume_tokens(list(end))
            reply += end
            continue
        fill_next_token_bitmask(matcher, mask)
        allowed = np.flatnonzero(np.unpackbits(mask.view(np.uint8), bitorder="little")[: BYTES.vocab_size]).tolist()
        options = [token for token in allowed if 32 <= token < 127 or token in (10, BYTES.eos_token)] or allowed
        preferred = [token for token in options if token in ENDING]
        token = choose.choice(preferred if preferred and choose.random() < 0.5 else options)
        if token == BYTES.eos_token:
            break
        assert matcher.consume_token(token), matcher.get_error()
        reply.append(token)
    return reply.decode() if matcher.is_accepting() else None


@pytest.mark.parametrize("name", BY_NAME)
def test_a_forced_call_is_read_as_a_call_that_fits(name: str) -> None:
    form = BY_NAME[name]
    prompt_end = ">>>" if name == "functionary-3.2" else ""
    ended = 0
    assert form.unheld(prepared(PARAMETERS, "p")) == ""
    for seed in range(SEEDS):
        parallel = seed % 2 == 1
        text = _sample(form.call_grammar(TOOLS, parallel=parallel), seed)
        if text is None:
            continue
        ended += 1
        reply = read_reply(form, text, tools=TOOLS, prompt_end=prompt_end, sizes=(3,))
        assert not reply.text.strip(), text
        assert not reply.note, text
        assert len(reply.calls) == 1 or (parallel and reply.calls), text
        for called, arguments in reply.calls:
            jsonschema.validate(json.loads(arguments), dict(NAMED[called]))
    assert ended


@pytest.mark.parametrize("name", BY_NAME)
def test_what_comes_before_structured_text_is_not_shown(name: str) -> None:
    form = BY_NAME[name]
    grammar = f'start: {form.before_text} "answer"\n'
    text = _sample(grammar, 1)
    assert text is not None
    prompt_end = ">>>" if name == "functionary-3.2" else ""
    assert read_reply(form, text, prompt_end=prompt_end).text == "answer"


EXACT = {
    name for name in BY_NAME if not BY_NAME[name].unheld({"type": "object", "properties": {"a": {"type": "string", "pattern": "^a$"}}})
}


def test_formats_with_json_arguments_hold_to_any_schema() -> None:
    assert {"hermes", "llama3", "mistral", "mistral-array", "deepseek", "kimi", "harmony", "granite3", "nemotron", "apertus"} <= EXACT
    assert not EXACT & {"qwen-coder", "glm", "gemma4", "functiongemma", "minimax", "seed"}


@pytest.mark.parametrize("name", sorted(BY_NAME.keys() - EXACT))
@pytest.mark.parametrize(
    ("parameters", "place"),
    [
        ({"properties": {"a": {"type": "string", "format": "date"}}}, "properties.a.allOf"),
        (
            {"properties": {"b": {"type": "integer"}, "a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string", "pattern": "a"}}},
            "properties.a.pattern",
        ),
        ({"properties": {"a": {"type": "string"}}, "required": ["b"]}, "required"),
        ({"properties": {"a": {"enum": ["a", "1"]}}}, ""),
        ({"properties": {"a": {"type": "integer", "minimum": 1}}}, ""),
    ],
)
def test_what_a_grammar_does_not_hold_to_is_named(name: str, parameters: JSONObject, place: str) -> None:
    assert BY_NAME[name].unheld(prepared({"type": "object", **parameters}, "p")) == place

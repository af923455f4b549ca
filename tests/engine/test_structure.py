"""Replies held to a JSON schema, over random replies: all that is allowed validates, what cannot be held is refused by name."""

from __future__ import annotations

import json
import time

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject
from tests.engine.walker import accepts, held, walk

SCHEMA = "response_format.json_schema.schema"
NODE: JSONObject = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
    "required": ["v", "next"],
}
LIST: JSONObject = {"$ref": "#/$defs/n", "$defs": {"n": NODE}}
PAIR: JSONObject = {"type": "object", "properties": {"a": {"type": "integer"}, "x": {}}}
KINDS: JSONObject = {
    "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
    "discriminator": {"propertyName": "kind"},
    "$defs": {
        "a": {"type": "object", "properties": {"kind": {"const": "a"}, "n": {"type": "integer"}}, "required": ["kind"]},
        "b": {"type": "object", "properties": {"kind": {"enum": ["b", "c"]}, "s": {"type": "string"}}, "required": ["kind", "s"]},
    },
}

VALID: list[JSON] = [
    {"type": "object"},
    {},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "boolean"}}, "required": ["b"]},
    {"type": "object", "additionalProperties": {"type": "integer"}, "minProperties": 1, "maxProperties": 3},
    {"type": "object", "additionalProperties": {"type": "null"}, "propertyNames": {"enum": ["a b", "b.c", "é<"]}},
    {
        "additionalProperties": {"type": "integer"},
        "propertyNames": {"$ref": "#/$defs/c"},
        "$defs": {"c": {"title": "C", "enum": ["red", "green"]}},
        "type": "object",
    },
    {"type": "object", "patternProperties": {"^a": {"type": "integer"}, "^b": {"type": "boolean"}}},
    {"allOf": [{"type": "object", "patternProperties": {"^a": {"type": "integer"}}}, {"additionalProperties": False}]},
    {"allOf": [{"type": "object", "patternProperties": {"^a": {"type": "integer"}}}, {"properties": {"ab": {"minimum": 5}}}]},
    {"allOf": [{"properties": {"a": {"type": "null"}}, "required": ["a"]}, {"properties": {"b": {"type": "null"}}, "required": ["b"]}]},
    {"allOf": [{"properties": {"a": {"properties": {"x": {"type": "null"}}}}}, {"properties": {"a": {"required": ["x", "y"]}}}]},
    {"properties": {"a": {"type": "integer"}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
    {"type": "object", "properties": {"a": {"type": "null"}}, "unevaluatedProperties": False},
    {"type": "object", "properties": {'é"\\\n': {"type": "null"}}, "required": ['é"\\\n']},
    {"type": "object", "required": ["z", "a"], "properties": {"a": {"type": "null"}}},
    {"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "boolean"}], "items": {"type": "null"}, "minItems": 2},
    {"type": "array", "items": {"enum": ["x", 1]}, "uniqueItems": False},
    {"type": "integer", "exclusiveMinimum": -5, "maximum": 5.5},
    {"type": "number", "minimum": -1.5, "exclusiveMaximum": 7.25},
    {"type": "number", "multipleOf": 0.25},
    {"type": ["string", "null"], "maxLength": 2, "minLength": 1},
    {"enum": ["a", 1, None, True, {"b": [1, 2.5]}]},
    {"const": {"a": {"b": None}}},
    {"anyOf": [{"type": "string", "maxLength": 3}, {"type": "integer", "minimum": 0}]},
    {"oneOf": [{"type": "string", "maxLength": 5}, {"type": "integer"}]},
    {"type": "string", "format": "date"},
    {"type": "string", "format": "time"},
    {"type": "string", "format": "date-time"},
    {"type": "string", "format": "ipv4"},
    {"type": "string", "format": "ipv6"},
    {"type": "string", "format": "uuid"},
    {"type": "string", "format": "duration"},
    {"type": "string", "format": "hostname"},
    {"format": "int32", "type": "integer"},
    LIST,
    KINDS,
    {"type": "object", "properties": {"$ref": {"type": "null"}, "not": {"type": "null"}, "enum": {"type": "null"}}},
]


def _validator(schema: JSON) -> jsonschema.Draft202012Validator:
    if not isinstance(schema, (dict, bool)):
        raise TypeError(schema)
    return jsonschema.Draft202012Validator(schema, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER)


@pytest.mark.parametrize("schema", VALID, ids=lambda schema: json.dumps(schema)[:60])
def test_whatever_a_schema_lets_through_validates(schema: JSON) -> None:
    validator = _validator(schema)
    done = 0
    for seed in range(6):
        if (text := walk(held(schema), seed)) is not None:
            done += 1
            validator.validate(json.loads(text))
    assert done >= 3


PATTERNS = [
    r"^[^\"]*$",
    r"^[^\\]$",
    r"^[a^]$",
    r"^[\s\S]{2}$",
    r"^[^\x00-\x1f]{2}$",
    r"^\W$",
    r"^[\W_]$",
    r"^[^\W_]$",
    r"^[^@\s]+@[^@\s]+\.[a-z]+$",
    r"^(?:[^\"\\]|\\\\.){2}$",
    r"^[[]$",
    r"^[a&&b]$",
    r"^[\]]$",
    r"b",
    "",
    r"^\d{3}-\d{4}$",
    r"^a|b$",
    r"^[\w.-]+$",
    r"^x.y$",
    r"^\/a\-b$",
]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("pattern", PATTERNS)
def test_whatever_a_pattern_lets_through_matches(pattern: str) -> None:
    schema: JSON = {"type": "string", "pattern": pattern, "maxLength": 40}
    texts = [walk(held(schema), seed) for seed in range(12)]
    done = [json.loads(text) for text in texts if text is not None]
    assert len(done) >= 6
    for text in done:
        _validator(schema).validate(text)


@pytest.mark.parametrize(
    ("schema", "texts"),
    [
        ({"type": "object", "properties": {"a": {"type": "string"}}}, {'{"a": "x"}': True, '{"a":"x"}': True, '{"b": 1}': False}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": True}, {'{"a": 1, "b": 2}': True}),
        (
            {"properties": {"a": {"type": "null"}}},
            {'"x"': False, '{\n  "a": null\n}': True, '{"a":  null}': False, '{"a":\n\nnull}': False},
        ),
        ({"type": "object", "properties": {"a": {"const": 1}}, "additionalProperties": {"const": 2}}, {'{"\\u0061": 2}': False}),
        ({"type": "string"}, {'"a\\nb"': True, '"\\u0041"': False, ' "a"': False, '"a" ': False, '"é🐚"': True}),
        ({"type": "integer"}, {"9007199254740991": True, "9007199254740992": False, "-9007199254740992": False, "1.0": False}),
        ({"type": "integer", "minimum": 2**60}, {}),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63}, {"5": True, "9007199254740992": False}),
        ({"type": "integer", "exclusiveMinimum": True, "minimum": 3}, {"3": False, "4": True}),
        ({"items": [{"type": "string"}, {"type": "null"}], "additionalItems": False}, {'["a", null]': True, '["a", null, 1]': False}),
        ({"type": "string", "format": "date"}, {'"2024-02-29"': True, '"2023-02-29"': False, '"1900-02-29"': False, '"2000-02-29"': True}),
        ({}, {'[1.5, {"a": null}]': True, "1e5": False, "[1e5]": False}),
        ({"type": "number"}, {"-0.5": True, "1e400": False, "9" * 17: False}),
        ({"type": "array", "prefixItems": [{"type": "null"}]}, {"[null]": True, "[null, 1]": False, "[]": True}),
        (
            {"allOf": [{"$ref": "#/$defs/a"}, {"properties": {"b": {}}}], "$defs": {"a": PAIR}},
            {'{"a": 1}': True, '{"a": 1, "c": 2}': False},
        ),
        ({**PAIR, "anyOf": [{"required": ["a"]}, {"required": ["x"]}]}, {'{"a": 1}': True, '{"x": 1}': True, '{"c": 1}': False}),
        ({"allOf": [NODE, {"type": "object"}], "$defs": {"n": NODE}}, {'{"v": 1, "next": {"v": 2, "next": null}}': True}),
        (KINDS, {'{"kind": "a"}': True, '{"kind": "c", "s": "x"}': True, '{"kind": "c"}': False, '{"kind": "a", "s": "x"}': False}),
        (False, {}),
    ],
)
def test_what_a_reply_may_be(schema: JSON, texts: dict[str, bool]) -> None:
    if not texts:
        with pytest.raises(BadRequest):
            held(schema)
    for text, allowed in texts.items():
        assert accepts(held(schema), text) is allowed, text


REFUSED: list[tuple[JSONObject, str]] = [
    ({"properties": {"age": {"not": {"type": "string"}}}}, "properties.age.not"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"items": {"uniqueItems": True}}}}, "$defs.a.items.uniqueItems"),
    ({"anyOf": [{"type": "null"}, {"type": "strin"}]}, "anyOf.1.type"),
    ({"allOf": [{"type": "null"}, {"items": {"if": {}}}]}, "allOf.1.items.if"),
    ({"properties": {"a": {"oneOf": [{"type": "object"}, {"type": "object"}]}}}, "properties.a.oneOf"),
    ({"properties": {"a": {"items": {"pattern": "(?=x)"}}}}, "properties.a.items.pattern"),
    ({"properties": {"a": {"$ref": "https://example.org/s.json"}}}, "properties.a.$ref"),
    ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "properties.a.$ref"),
    ({"$ref": "#"}, "$ref"),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/a"}]}}}, "$ref"),
    ({"x-guidance": {"lenient": True}, "not": {}}, "not"),
    ({"additionalProperties": {"x-guidance": {"lenient": True}, "not": {}}}, "additionalProperties.not"),
    ({"type": "object", "minProperties": 2, "additionalProperties": {"type": "null"}}, "minProperties"),
    ({"enum": ["a", 2**60]}, "enum.1"),
    ({"const": "a\u0001"}, "const"),
    ({"const": "\ud800"}, "const"),
    ({"pattern": "^[\\x00-\\x1f]$"}, "pattern"),
    ({"type": "string", "format": "regex"}, "format"),
    ({"type": "string", "minLength": 10**9}, "minLength"),
    ({"type": "object", "properties": {"a": {"type": "string", "minLength": 3, "maxLength": 2}}, "required": ["a"]}, "properties.a"),
    ({"properties": 5}, "properties"),
    ({"properties": {"a": 5}}, "properties.a"),
    ({"required": "a"}, "required"),
    ({"anyOf": []}, "anyOf"),
    ({"maximum": "5"}, "maximum"),
    ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"),
]


@pytest.mark.parametrize(("schema", "place"), REFUSED, ids=[place or "the whole" for _, place in REFUSED])
def test_what_cannot_be_held_is_refused_and_named(schema: JSONObject, place: str) -> None:
    with pytest.raises(BadRequest) as caught:
        held(schema)
    assert caught.value.param == f"{SCHEMA}.{place}".rstrip(".")
    assert caught.value.param in caught.value.message and caught.value.hint


def _deep(levels: int) -> JSONObject:
    schema: JSONObject = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def _many(count: int, needed: bool) -> JSONObject:
    named: JSONObject = {f"p{index}": {"type": "string"} for index in range(count)}
    return {"type": "object", "properties": named, "required": list[JSON](named) if needed else []}


HOSTILE: list[JSONObject] = [
    _deep(60),
    _deep(120),
    _many(1_900, True),
    _many(1_900, False),
    {"enum": [f"value {index}" for index in range(15_000)]},
    {"const": "c" * 200_000},
    {"properties": {"k" * 100_000: {}}},
    {"type": "string", "pattern": "((a{1,100}){1,100}){1,100}"},
    {"type": "string", "pattern": "^(.*a){20}.{200}$"},
    {"type": "string", "pattern": "(" * 5_000 + ")" * 5_000},
    {"type": "string", "pattern": "(a|aa|aaa|.*b.*c){1,5000}"},
    {"type": "array", "minItems": 10**6, "maxItems": 10**30},
    {"type": "integer", "multipleOf": 999_999_937},
    {"type": "number", "multipleOf": 1e-300},
    {"$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}, {"type": "object"}]}}, "$ref": "#/$defs/a"},
    {
        "$defs": {**{f"d{i}": {"allOf": [{"$ref": f"#/$defs/d{i + 1}"}] * 2} for i in range(30)}, "d30": {"type": "string"}},
        "$ref": "#/$defs/d0",
    },
    {"allOf": [{"anyOf": [{"properties": {f"x{i}{j}": {"type": "integer"}}} for j in range(4)]} for i in range(12)]},
    {"oneOf": [{"type": "object", "properties": {"k": {"type": "string"}}}] * 300},
    {"description": "d" * 10_000_000},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_schema_works_or_is_refused_and_soon(schema: JSONObject) -> None:
    began = time.process_time()
    try:
        held(schema)
    except BadRequest as error:
        assert error.param is not None and error.param.startswith(SCHEMA) and len(error.message) < 1_500
    assert time.process_time() - began < 3


NAMES = st.sampled_from(["a", "b", "c d", 'e"', "é"])
LEAVES: st.SearchStrategy[JSON] = st.one_of(
    st.sampled_from(
        [True, {"type": "null"}, {"type": "boolean"}, {"type": "string", "maxLength": 4}, {"enum": ["x", 1, None, [1]]}, {"const": 5}]
    ),
    st.builds(lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size}, st.integers(-99, 99), st.integers(0, 50)),
    st.builds(lambda low, size: {"type": "number", "exclusiveMinimum": low, "maximum": low + size}, st.integers(-9, 9), st.integers(1, 9)),
    st.builds(lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more}, st.integers(0, 3), st.integers(0, 3)),
    st.sampled_from([{"type": "string", "pattern": pattern} for pattern in ('^[^"a]{1,3}$', "^\\d+$", "^(?:x|yy)$")]),
)


def _nodes(inner: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    objects = st.fixed_dictionaries(
        {"type": st.just("object"), "properties": st.dictionaries(NAMES, inner, max_size=3)},
        optional={
            "required": st.lists(NAMES, unique=True, max_size=2),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "patternProperties": st.dictionaries(st.sampled_from(["^a", "é$", "^x"]), inner, max_size=1),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 3),
        },
    )
    arrays = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
        },
    )
    joined = st.builds(
        lambda key, several: {key: several}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner, min_size=1, max_size=3)
    )
    beside = st.builds(lambda one, other: {**other, **one}, joined, objects)
    reference = st.builds(lambda target: {"$ref": "#/$defs/t", "$defs": {"t": target}}, inner)
    return st.one_of(objects, arrays, joined, beside, reference)


@settings(max_examples=60, deadline=None)
@given(st.recursive(LEAVES, _nodes, max_leaves=6), st.integers(0, 1000))
def test_a_schema_at_random_is_refused_or_held_to(schema: JSON, seed: int) -> None:
    whole: JSONObject = {"$defs": {"t": {"type": "null"}}, "allOf": [schema]}
    try:
        text = walk(held(whole), seed)
    except BadRequest:
        return
    if text is not None:
        _validator(whole).validate(json.loads(text))

"""A JSON schema as a request gives it, made ready for llguidance: what it allows validates, and what it cannot express is refused by name.

The schema is rebuilt from the keywords that are known here. What only annotates is left out; what asserts something that no grammar
can hold to is an error that names its place. Every `$ref` becomes one to a definition at the top. What a schema leaves open is narrowed
where that helps (`schema_narrowing`). Between JSON's signs there is at most one space, or a new line with its indent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import unquote

from daemon.engine.llama.structure.schema_narrowing import ANYTHING, joined, narrowed
from daemon.engine.llama.structure.schema_places import SameValue
from daemon.engine.llama.structure.schema_text import FORMATS, PATTERNS, REFUSED_FORMATS, translated
from daemon.engine.llama.structure.schema_unions import exclude_each_other
from daemon.engine.llama.structure.schema_values import LONGEST_TEXT, bounds, constant, count, deeper_than, names, refused, types
from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject

_OPTIONS: JSONObject = {
    "whitespace_pattern": "( |\\n {0,24})",
    "json_allowed_escapes": 'nrbtf\\"',  # "\u0061" would pass for another name than "a"
}
_LEVELS = 24  # of nesting; what is deeper becomes a definition of its own, because llguidance reads 128
_LARGEST_BYTES = 1 << 18
_DEEPEST = 250
_MOST_PARTS = 2_000  # schemas within the schema
_APPLICATORS = frozenset({"anyOf", "oneOf", "allOf", "$ref"})
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength")
_OBJECTS = ("properties", "patternProperties", "additionalProperties", "required")
_ARRAYS = ("items", "prefixItems", "additionalItems")
_ASSERTIONS = frozenset({"type", "enum", "const", "pattern", "format", *_NUMBERS, *_COUNTS, *_OBJECTS, *_ARRAYS})

_REFUSED: dict[str, tuple[JSON, ...]] = {
    "not": (),
    "if": (),
    "contains": (),
    "uniqueItems": (False,),
    "propertyNames": (True, {}, {"type": "string"}),
    "dependentRequired": ({},),
    "dependentSchemas": ({},),
    "dependencies": ({},),
    "unevaluatedProperties": (True, {}),
    "unevaluatedItems": (True, {}),
    "$dynamicRef": (),
    "$recursiveRef": (),
}
"""Keywords that no grammar here can hold to, each with the values that assert nothing."""


def prepared(schema: JSON, path: str, root: JSON = None) -> JSONObject:
    """The same schema for llguidance, options included.

    Args:
        path: where it is in the request, for errors.
        root: the schema that it is a part of and that its references point into; by default itself.

    Raises:
        BadRequest: names the part that is wrong, too large or cannot be expressed.
    """
    if deeper_than(schema, _DEEPEST):
        raise BadRequest(f"{path} is nested more than {_DEEPEST} levels deep.", "Ask for a simpler structure.", param=path)
    size = len(json.dumps(schema))
    if size > _LARGEST_BYTES:
        raise BadRequest(f"{path} has {size} bytes; a schema may have {_LARGEST_BYTES}.", param=path)
    return _Reader(schema if root is None else root, path).read(schema)


class _Reader:
    """One schema. References wait until what refers to them is done, so that none is followed for ever."""

    def __init__(self, root: JSON, path: str) -> None:
        self._root = root
        self._path = path
        self._names: dict[tuple[str, bool], str] = {}
        self._waiting: list[tuple[JSON, str, str, bool]] = []
        self._parts = 0
        self._places = SameValue(self._target)

    def read(self, schema: JSON) -> JSONObject:
        whole = self._schema(schema, self._path, False, 0)
        definitions: JSONObject = {"any": ANYTHING}
        while self._waiting:
            target, path, name, merged = self._waiting.pop()
            definitions[name] = self._schema(target, path, merged, 1)
        if not isinstance(whole, dict):
            whole = {} if whole else {"enum": []}
        return {"x-guidance": _OPTIONS, **whole, "$defs": definitions}

    def _schema(self, schema: JSON, path: str, merged: bool, level: int) -> JSON:
        """A schema in its place. `merged`: others hold for the same value too, so that it must not be narrowed."""
        if schema is True and not merged:
            return narrowed({}, [])
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise refused(path, "must be a schema: an object, true or false")
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise BadRequest(f"{self._path} has more than {_MOST_PARTS} parts.", "Ask for a simpler structure.", param=self._path)
        if level > _LEVELS:
            return {"$ref": self._definition(schema, path, f"at {path}", merged)}
        keys = schema.get("propertyNames")
        if isinstance(keys, dict) and isinstance(named := self._target(keys.get("$ref")), dict):
            schema = {**schema, "propertyNames": {name: value for name, value in named.items() if name != "title"}}
        for keyword, empty in _REFUSED.items():
            if keyword in schema and schema[keyword] not in empty and not _said_otherwise(keyword, schema):
                raise refused(f"{path}.{keyword}", "cannot be expressed as a grammar")
        if level and "$id" in schema and '"$ref"' in json.dumps(schema):
            raise refused(f"{path}.$id", "cannot be expressed: references below it would point elsewhere")
        return self._rebuilt(schema, path, merged, level)

    def _rebuilt(self, schema: JSONObject, path: str, merged: bool, level: int) -> JSONObject:
        applied = _APPLICATORS & schema.keys()
        every = schema.get("allOf")
        joins = len(applied) > 1 or bool(applied and _ASSERTIONS & schema.keys()) or (isinstance(every, list) and len(every) > 1)
        inner = merged or joins
        out: JSONObject = {}
        also: list[JSON] = []  # further schemas that hold too
        kinds = types(schema, path)
        out.update({"type": kinds if len(kinds) > 1 else kinds[0]} if kinds else {})
        for keyword, value in schema.items():
            where = f"{path}.{keyword}"
            if keyword == "const":
                out[keyword] = constant(value, where)
            elif keyword == "enum":
                constants = [constant(each, f"{where}.{index}") for index, each in enumerate(_list(value, where))]
                out[keyword] = list({json.dumps(each): each for each in constants}.values())
            elif keyword in _COUNTS:
                out[keyword] = count(value, where, least=keyword.startswith("min"))
            elif keyword == "pattern":
                out[keyword] = _pattern(value, where)
            elif keyword == "format" and (not kinds or "string" in kinds):
                if value in REFUSED_FORMATS or not isinstance(value, str):
                    raise refused(where, f"{value} cannot be expressed as a grammar")
                if value in PATTERNS:
                    also.append({"pattern": PATTERNS[value]})
                elif value in FORMATS:
                    out[keyword] = value
            elif keyword == "$ref":
                out[keyword] = self._reference(value, where, inner)
            elif keyword == "anyOf":
                out[keyword] = self._list_of(value, where, inner, level)
            elif keyword == "oneOf":
                either = self._list_of(value, where, inner, level)
                if exclude_each_other(_list(value, where), self._target):  # llguidance does not look through references
                    also.append({"anyOf": either})
                else:
                    out[keyword] = either
            elif keyword == "allOf":
                also += self._list_of(value, where, inner, level)
        out.update(self._of_object(schema, path, merged or bool(applied), level))
        out.update(self._of_array(schema, path, merged or bool(applied), level))
        out.update(bounds(schema, path))
        if joins and not merged:
            also.append(joined(self._places.all_of(schema)))
        elif not merged and not applied and not out.keys() & {"enum", "const"} and (out or not also):
            out = narrowed(out, kinds)
        if len(also) == 1 and not out and isinstance(also[0], dict):
            return also[0]
        return {**out, "allOf": also} if also else out

    def _of_object(self, schema: JSONObject, path: str, merged: bool, level: int) -> JSONObject:
        out: JSONObject = {}
        named = _dict(schema.get("properties", {}), f"{path}.properties")
        patterns = _dict(schema.get("patternProperties", {}), f"{path}.patternProperties")
        needed = names(schema.get("required", []), f"{path}.required")
        for name in named:
            if len(name) > LONGEST_TEXT:
                raise refused(f"{path}.properties.{name}", f"is a name of {len(name)} characters; {LONGEST_TEXT} are the most")
        if "properties" in schema:
            out["properties"] = {name: self._schema(each, f"{path}.properties.{name}", merged, level + 1) for name, each in named.items()}
        if patterns:
            out["patternProperties"] = {
                _pattern(name, f"{path}.patternProperties.{name}"): self._schema(
                    each, f"{path}.patternProperties.{name}", merged, level + 1
                )
                for name, each in patterns.items()
            }
        if needed:
            out["required"] = list[JSON](needed)
        further = schema.get("additionalProperties")
        if further is not None:
            out["additionalProperties"] = self._schema(further, f"{path}.additionalProperties", merged, level + 1)
        elif schema.get("unevaluatedProperties") is False:
            out["additionalProperties"] = False
        keys = schema.get("propertyNames")
        if isinstance(keys, dict) and keys != {"type": "string"} and keys:
            value = out.get("additionalProperties", True if merged else narrowed({}, []))
            out["patternProperties"] = {_names_pattern(keys, f"{path}.propertyNames"): value}
            out["additionalProperties"] = False
        least = schema.get("minProperties", 0)
        if isinstance(least, int) and least > max(1, len(needed)):
            # A name may be written twice in what is generated, and counts once.
            raise refused(f"{path}.minProperties", "cannot be expressed beyond 1, except by properties that are required")
        return out

    def _of_array(self, schema: JSONObject, path: str, merged: bool, level: int) -> JSONObject:
        out: JSONObject = {}
        rest, first = schema.get("items"), schema.get("prefixItems")
        place, prefix = f"{path}.items", f"{path}.prefixItems"
        if isinstance(rest, list):  # drafts before 2020-12
            first, rest = rest, schema.get("additionalItems")
            place, prefix = f"{path}.additionalItems", place
        if first is not None:
            out["prefixItems"] = [
                self._schema(each, f"{prefix}.{index}", merged, level + 1) for index, each in enumerate(_list(first, prefix))
            ]
        if rest is not None:
            out["items"] = self._schema(rest, place, merged, level + 1)
        return out

    def _list_of(self, value: JSON, path: str, merged: bool, level: int) -> list[JSON]:
        return [self._schema(each, f"{path}.{index}", merged, level + 1) for index, each in enumerate(_list(value, path))]

    def _reference(self, value: JSON, path: str, merged: bool) -> str:
        target = self._target(value)
        if not isinstance(value, str) or target is None:
            raise refused(path, f"{value} is not a place within the schema, such as #/$defs/NAME")
        if self._places.leads_back(target):
            raise refused(path, f"{value} leads back to itself")
        return self._definition(target, self._path_of(value), value, merged)

    def _target(self, reference: JSON) -> JSON:
        """What a reference such as `#/$defs/a` points to; None: nothing, or another document."""
        if not isinstance(reference, str) or not re.fullmatch(r"#(/.*)?", reference, re.DOTALL):
            return None
        found = self._root
        for step in unquote(reference[1:]).split("/")[1:]:
            key = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict):
                found = found.get(key)
            elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
                found = found[int(key)]
            else:
                return None
        return found

    def _path_of(self, reference: str) -> str:
        return self._path + reference[1:].replace("/", ".")

    def _definition(self, schema: JSON, path: str, key: str, merged: bool) -> str:
        name = self._names.get((key, merged))
        if name is None:
            name = self._names[key, merged] = f"d{len(self._names)}"
            self._waiting.append((schema, path, name, merged))
        return f"#/$defs/{name}"


def _said_otherwise(keyword: str, schema: JSONObject) -> bool:
    """Whether this keyword says what others can say instead."""
    if keyword == "unevaluatedProperties":
        return schema[keyword] is False and not _APPLICATORS & schema.keys()
    keys = schema.get("propertyNames")
    return (
        keyword == "propertyNames"
        and isinstance(keys, dict)
        and keys.keys() <= {"type", "enum", "pattern", "description"}
        and len(keys.keys() & {"enum", "pattern"}) == 1
        and not schema.keys() & {"properties", "patternProperties", "required"}
    )


def _names_pattern(keys: JSONObject, path: str) -> str:
    if "pattern" in keys:
        return _pattern(keys["pattern"], f"{path}.pattern")
    return "^(?:" + "|".join(re.escape(name) for name in names(keys["enum"], f"{path}.enum")) + ")$"


def _pattern(value: JSON, path: str) -> str:
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        raise refused(path, f"must be a text of at most {LONGEST_TEXT} characters")
    return translated(value, path)


def _dict(value: JSON, path: str) -> JSONObject:
    if not isinstance(value, dict):
        raise refused(path, "must be an object")
    return value


def _list(value: JSON, path: str) -> list[JSON]:
    if not isinstance(value, list) or not value:
        raise refused(path, "must be a list that is not empty")
    return value


def parts(schema: JSON) -> Iterator[tuple[JSON, str]]:
    """The schemas directly within a schema, each with its place there. References are not followed."""
    if not isinstance(schema, dict):
        return
    for keyword in (*_OBJECTS, *_ARRAYS, "anyOf", "oneOf", "allOf", "$defs", "definitions"):
        value = schema.get(keyword)
        if keyword in ("properties", "patternProperties", "$defs", "definitions") and isinstance(value, dict):
            yield from ((inner, f"{keyword}.{name}") for name, inner in value.items())
        elif isinstance(value, list) and keyword != "required":
            yield from ((inner, f"{keyword}.{index}") for index, inner in enumerate(value))
        elif isinstance(value, dict):
            yield value, keyword

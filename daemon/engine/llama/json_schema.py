"""A JSON schema as a request gives it, made ready for llguidance."""

from __future__ import annotations

from daemon.records import JSONObject

_WHITESPACE = "( |\\n {0,24})"  # between JSON's signs: one space, or a new line with its indent; never without end


def prepared(schema: JSONObject, path: str) -> JSONObject:
    return {**schema, "x-guidance": {"whitespace_pattern": _WHITESPACE}}

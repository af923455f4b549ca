"""Replies that are held to a JSON form."""

from __future__ import annotations

from jsonschema import Draft202012Validator

from daemon import json_text
from daemon.conformance.outcome import Absent, Failed, Refused, shorten
from daemon.conformance.probe import Probe, user
from daemon.conformance.tools import one_of
from daemon.records import JSON, JSONObject

_SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "city": one_of("Lisbon", "Oslo"),
        "days": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"type": "integer", "enum": [1, 2, 3]}},
        "sunny": {"type": "boolean"},
    },
    "required": ["city", "days", "sunny"],
    "additionalProperties": False,
}
_NOT_OFFERED = (400, 404, 422, 501)


async def json_object(probe: Probe) -> str:
    text = await _held(
        probe, {"type": "json_object"}, "Describe the weather in Lisbon as a JSON object with one key, sunny, which is true."
    )
    if text is None:
        return "A JSON object was begun and cut off at max_tokens, which its finish reason says."
    if not isinstance(_parsed(text), dict):
        raise Failed(f"json_object gave no JSON object: {shorten(text, 80)!r}.")
    return f"json_object gives a JSON object: {shorten(text, 60)}."


async def json_schema(probe: Probe) -> str:
    form: JSONObject = {"type": "json_schema", "json_schema": {"name": "weather", "strict": True, "schema": _SCHEMA}}
    text = await _held(probe, form, "Describe the weather in Lisbon on two days, as JSON.")
    if text is None:
        raise Failed("A form that allows only short replies was not closed before max_tokens.")
    for error in Draft202012Validator(_SCHEMA).iter_errors(_parsed(text)):
        raise Failed(f"json_schema gave what does not fit at {error.json_path}: {shorten(text, 80)!r}.")
    return f"json_schema gives what fits the schema: {shorten(text, 60)}."


async def _held(probe: Probe, form: JSONObject, asked: str) -> str | None:
    """The text; None where it was cut off."""
    try:
        answer = await probe.ask([user(asked)], response_format=form)
    except Refused as error:
        if error.status in _NOT_OFFERED:
            raise Absent(f"response_format is not offered: {shorten(error.text)}") from error
        raise
    return None if answer.finish_reason == "length" else answer.text


def _parsed(text: str) -> JSON:
    try:
        return json_text.parse(text)
    except ValueError:
        raise Failed(f"The reply is no JSON: {shorten(text, 80)!r}.") from None

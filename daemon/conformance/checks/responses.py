"""The responses wire, which codex speaks and nothing else: the events of a stream, and a call with its result."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.conformance.outcome import Failed, Skipped, shorten
from daemon.conformance.probe import Probe
from daemon.conformance.shapes import a_text, an_object, objects
from daemon.conformance.tools import WEATHER
from daemon.records import JSON, JSONObject

_ENDS = ("response.completed", "response.incomplete", "response.failed", "error")
_SAID = {
    "response.output_text.delta": "response.output_text.done",
    "response.function_call_arguments.delta": "response.function_call_arguments.done",
}


async def events(probe: Probe) -> str:
    """A stream, and a call that the model made earlier with its result."""
    if "responses" not in probe.facts.wires:
        raise Skipped("There is no route /responses.")
    ended = _checked(await _stream(probe, [_said("user", "Count from one to ten in words.")]))
    if not objects(ended.get("output")):
        raise Failed("The reply holds no items.")
    if not an_object(ended.get("usage")).get("input_tokens"):
        raise Failed("The reply has no usage: nobody can tell when the window is full.")
    called: list[JSON] = [
        _said("developer", "Answer in one word."),
        _said("user", "What is the weather in Lisbon?"),
        {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "I look it up."}], "encrypted_content": "x"},
        {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "get_weather", "arguments": '{"city":"Lisbon"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
    ]
    offered: list[JSON] = [{"type": "function", **an_object(WEATHER["function"]), "strict": False}, {"type": "web_search"}]
    _checked(await _stream(probe, called, tools=offered, tool_choice="auto", include=["reasoning.encrypted_content"]))
    return "Typed events in order, one end, and calls with their results."


async def _stream(probe: Probe, items: list[JSON], **fields: JSON) -> list[JSONObject]:
    body: JSONObject = {"model": probe.facts.model, "input": items, "temperature": 0, "max_output_tokens": probe.budget_tokens}
    return await probe.client.events("/responses", {**body, "store": False, **fields})


def _said(role: str, text: str) -> JSONObject:
    return {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]}


def _checked(found: Sequence[JSONObject]) -> JSONObject:
    """The response in the last event.

    Raises:
        Failed: says what is wrong with the events.
    """
    kinds = [a_text(event.get("type")) for event in found]
    if not kinds or kinds[0] != "response.created":
        raise Failed(f"The stream begins with {shorten(kinds[0], 60)!r}, not with response.created." if kinds else "The stream is empty.")
    ends = [kind for kind in kinds if kind in _ENDS]
    if ends != kinds[-1:]:
        raise Failed(f"The stream ends {len(ends)} times, and with {shorten(kinds[-1], 60)!r}.")
    response = an_object(found[-1].get("response"))
    if kinds[-1] not in _ENDS[:2]:
        error = an_object(response.get("error")) or found[-1]
        raise Failed(f"The stream broke off with an error: {shorten(a_text(error.get('message')))}")
    _check_items(found)
    return response


def _check_items(found: Sequence[JSONObject]) -> None:
    """Each item begins and ends, and what it says in pieces is what it says as a whole."""
    begun: dict[JSON, str] = {}
    said: dict[tuple[JSON, str], str] = {}
    for event in found:
        kind, place = a_text(event.get("type")), event.get("output_index")
        if kind.startswith(("response.output_", "response.function_", "response.content_")) and not isinstance(place, int):
            raise Failed(f"{kind} has no output_index.")
        if kind == "response.output_item.added":
            begun[place] = a_text(an_object(event.get("item")).get("type"))
        elif kind in _SAID:
            if place not in begun:
                raise Failed(f"{kind} comes before its item.")
            said[place, _SAID[kind]] = said.get((place, _SAID[kind]), "") + a_text(event.get("delta"))
        elif kind in _SAID.values():
            whole = a_text(event.get("text")) or a_text(event.get("arguments"))
            if whole != said.get((place, kind), ""):
                raise Failed(f"{kind} says {shorten(whole, 60)!r}, its pieces {shorten(said.get((place, kind), ''), 60)!r}.")
        elif kind == "response.output_item.done":
            item = an_object(event.get("item"))
            if begun.pop(place, "") != item.get("type"):
                raise Failed("An item ends that has not begun.")
            if item.get("type") == "function_call" and not (a_text(item.get("call_id")) and a_text(item.get("name"))):
                raise Failed("A call lacks its call_id or its name.")
    if begun:
        raise Failed(f"{len(begun)} items never end.")

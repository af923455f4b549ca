"""Anthropic's messages wire, which Claude Code speaks and nothing else: the events of a stream, and a call with its result."""

from __future__ import annotations

from collections.abc import Sequence

from daemon.conformance.outcome import Failed, Skipped, shorten
from daemon.conformance.probe import Probe
from daemon.conformance.shapes import a_count, a_text, an_object
from daemon.conformance.tools import WEATHER
from daemon.records import JSON, JSONObject

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "thinking", "input_json_delta": "tool_use"}


async def events(probe: Probe) -> str:
    """A stream, and a call that the model made earlier with its result."""
    if "messages" not in probe.facts.wires:
        raise Skipped("There is no route /messages.")
    usage = _checked(await _stream(probe, [{"role": "user", "content": "Count from one to ten in words."}]))
    if not sum(a_count(usage.get(name)) for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")):
        raise Failed("The reply has no usage: nobody can tell when the window is full.")
    function = an_object(WEATHER["function"])
    offered: list[JSON] = [
        {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]},
        {"type": "web_search_20250305", "name": "web_search"},
    ]
    used: JSONObject = {"type": "tool_use", "id": "toolu_1", "name": "get_weather", "input": {"city": "Lisbon", "unit": "celsius"}}
    result: JSONObject = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "sunny"}]}
    called: list[JSON] = [
        {"role": "user", "content": [{"type": "text", "text": "What is the weather?", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": "Answer in one word."},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "I look it up.", "signature": "x"}, used]},
        {"role": "user", "content": [result]},
    ]
    _checked(await _stream(probe, called, tools=offered, thinking={"type": "adaptive"}, context_management={"edits": []}))
    return "Named events in order, one end, and calls with their results."


async def _stream(probe: Probe, messages: list[JSON], **fields: JSON) -> list[JSONObject]:
    system: list[JSON] = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    body: JSONObject = {"model": probe.facts.model, "system": system, "messages": messages, "max_tokens": probe.budget_tokens}
    return await probe.client.events("/messages", {**body, **fields})


def _checked(found: Sequence[JSONObject]) -> JSONObject:
    """The usage, put together from the events.

    Raises:
        Failed: says what is wrong with the events.
    """
    told = [event for event in found if event.get("type") != "ping"]
    kinds = [a_text(event.get("type")) for event in told]
    if "error" in kinds:
        error = an_object(told[kinds.index("error")].get("error"))
        raise Failed(f"The stream broke off with an error: {shorten(a_text(error.get('message')))}")
    if not kinds or kinds[0] != "message_start":
        raise Failed(f"The stream begins with {shorten(kinds[0], 60)!r}, not with message_start." if kinds else "The stream is empty.")
    if kinds.count("message_stop") != 1 or kinds[-1] != "message_stop":
        raise Failed(f"message_stop comes {kinds.count('message_stop')} times, and last comes {shorten(kinds[-1], 60)!r}.")
    _check_blocks(told)
    ends = [event for event in told if event.get("type") == "message_delta"]
    if not ends or not a_text(an_object(ends[-1].get("delta")).get("stop_reason")):
        raise Failed("No stop_reason comes.")
    begun = an_object(an_object(told[0].get("message")).get("usage"))
    return {**begun, **an_object(ends[-1].get("usage"))}


def _check_blocks(told: Sequence[JSONObject]) -> None:
    """Each block begins, grows as what it is, and ends; they are numbered from 0."""
    begun: dict[JSON, str] = {}
    count = 0
    for event in told:
        kind, index = a_text(event.get("type")), event.get("index")
        if kind == "content_block_start":
            block = an_object(event.get("content_block"))
            if index != count:
                raise Failed(f"Block {count} is numbered {shorten(str(index), 20)}.")
            begun[index] = a_text(block.get("type"))
            if begun[index] == "tool_use" and not (a_text(block.get("id")) and a_text(block.get("name"))):
                raise Failed("A call lacks its id or its name.")
            count += 1
        elif kind == "content_block_delta":
            grown = a_text(an_object(event.get("delta")).get("type"))
            if index not in begun or begun[index] != _DELTAS.get(grown, begun.get(index)):
                raise Failed(f"{grown} comes without its block.")
        elif kind == "content_block_stop" and begun.pop(index, None) is None:
            raise Failed("A block ends that has not begun.")
    if begun:
        raise Failed(f"{len(begun)} blocks never end.")

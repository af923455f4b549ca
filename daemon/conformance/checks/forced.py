"""Tool calls that the server has to make: whatever the model is worth, they fit their schema."""

from __future__ import annotations

from daemon.conformance.outcome import Absent, Failed, Refused, Skipped, shorten
from daemon.conformance.probe import Probe, user, valid_call
from daemon.conformance.replies import Reply, ToolCall
from daemon.conformance.tools import BARE, CLOCK, FILES, HARD_TEXT, NESTED, UNICODE, WEATHER, choose
from daemon.records import JSONObject, Message

_ASKED = user("What is the weather in Lisbon, in celsius?")
_NOT_OFFERED = (400, 404, 422, 501)


async def forced(probe: Probe) -> str:
    """A named function."""
    try:
        answer = await probe.ask([_ASKED], tools=[WEATHER], tool_choice=choose("get_weather"))
    except Refused as error:
        if error.status in _NOT_OFFERED:
            raise Absent(f"A call cannot be forced: {shorten(error.text)}") from error
        raise
    call = _only_call(answer)
    valid_call(call, [WEATHER], forced=True)
    probe.facts.forced_calls, probe.facts.last_call = True, call
    return f"The call that was asked for comes, and fits its schema: {call.name}({shorten(call.arguments, 60)})."


async def forced_stream(probe: Probe) -> str:
    """The same streamed: name first, then arguments, and the same call."""
    _need(probe)
    whole = await probe.ask([_ASKED], tools=[WEATHER], tool_choice=choose("get_weather"))
    streamed = await probe.ask([_ASKED], stream=True, tools=[WEATHER], tool_choice=choose("get_weather"))
    valid_call(_only_call(streamed), [WEATHER], forced=True)
    if whole.content != streamed.content:
        raise Failed(
            f"Streamed, the call is another one: {shorten(str(streamed.content[1]), 60)} instead of {shorten(str(whole.content[1]), 60)}."
        )
    return "A streamed call has its id, type and name first, its arguments after, and is the same call."


async def required(probe: Probe) -> str:
    """Any of several."""
    _need(probe)
    tools: list[JSONObject] = [WEATHER, CLOCK]
    answer = await probe.ask([user("What time is it?")], tools=[*tools], tool_choice="required")
    if not answer.calls:
        raise Failed(f"tool_choice 'required' brought no call, but {shorten(answer.text, 60)!r}.")
    for call in answer.calls:
        valid_call(call, tools, forced=True)
    return f"One of several tools is called: {', '.join(call.name for call in answer.calls)}."


async def none(probe: Probe) -> str:
    answer = await probe.ask([_ASKED], tools=[WEATHER], tool_choice="none", max_tokens=48)
    if answer.calls:
        raise Failed("tool_choice 'none' brought a tool call.")
    return "tool_choice 'none' brings no call."


async def nested(probe: Probe) -> str:
    _need(probe)
    call = await _forced(probe, user("Plan a trip to Lisbon for two days and to Oslo for one day, second class, and back."), NESTED)
    return f"Nested objects, arrays, booleans, integers and null fit their schema: {shorten(call.arguments, 90)}."


async def no_arguments(probe: Probe) -> str:
    """A tool without arguments, with an empty schema and with none."""
    _need(probe)
    call = await _forced(probe, user("What time is it?"), CLOCK)
    bare = await _forced(probe, user("Check the connection."), BARE)
    return f"Tools without arguments are called: {call.name}({shorten(call.arguments, 20)}), {bare.name}({shorten(bare.arguments, 40)})."


async def unicode(probe: Probe) -> str:
    """Quotes, backslashes, line breaks, other scripts: in one piece and streamed."""
    _need(probe)
    asked = user("Write the note.")
    for stream in (False, True):
        answer = await probe.ask([asked], stream=stream, tools=[UNICODE], tool_choice=choose("write_note"))
        valid_call(_only_call(answer), [UNICODE], forced=True)  # the only text that fits is the one that was asked for
    return "Quotes, backslashes, line breaks and other scripts come through whole."


async def history(probe: Probe) -> str:
    """Calls and results that come back, in the forms that clients use; with tools, with none, with an empty list."""
    call = probe.facts.last_call or ToolCall("call_a1b2c3d4e", "get_weather", '{"city":"Lisbon","unit":"celsius"}')
    for name, messages, fields in _histories(call):
        try:
            await probe.ask(messages, fields, max_tokens=4)
        except Failed as error:
            raise Failed(f"Not accepted: {name}. {error.sentence}") from error
    return "Results are accepted as text and in parts, with a call's content null or empty, with tools, without, and with tools: []."


def _histories(call: ToolCall) -> list[tuple[str, list[Message], JSONObject]]:
    function: JSONObject = {"name": call.name, "arguments": call.arguments}
    made: Message = {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "type": "function", "function": function}]}
    result: Message = {"role": "tool", "tool_call_id": call.id, "content": f"21 degrees, sunny. {HARD_TEXT}"}
    parts: Message = {**result, "content": [{"type": "text", "text": "21 degrees, sunny."}]}
    second = {**function, "arguments": call.arguments.replace("Lisbon", "Oslo")}
    two: Message = {
        **made,
        "tool_calls": [
            {"id": f"{call.id[:-1]}{end}", "type": "function", "function": called} for end, called in (("0", function), ("1", second))
        ],
    }
    results: list[Message] = [{**result, "tool_call_id": f"{call.id[:-1]}{end}"} for end in ("0", "1")]
    offered: JSONObject = {"tools": [WEATHER]}
    return [
        ("a result as text", [_ASKED, made, result], offered),
        ("a result in parts", [_ASKED, made, parts], offered),
        ("a call beside text", [_ASKED, {**made, "content": "I shall look."}, result], offered),
        ("a call beside empty text", [_ASKED, {**made, "content": ""}, result], offered),
        (
            "a user message after a result",
            [_ASKED, made, result, {"role": "assistant", "content": "Sunny."}, user("And tomorrow?")],
            offered,
        ),
        ("two calls with two results", [_ASKED, two, *results], offered),
        ("a history of calls without tools", [_ASKED, made, result, user("Summarise.")], {}),
        ("a history of calls with tools: []", [_ASKED, made, result, user("Summarise.")], {"tools": []}),
    ]


async def unread_names(probe: Probe) -> str:
    """A function that is not among the tools is a mistake to be told of."""
    _need(probe)
    try:
        answer = await probe.look([_ASKED], tools=[*FILES], tool_choice=choose("get_weather"), max_tokens=16)
    except Refused as error:
        if error.status >= 500:
            raise
        return f"A tool choice that names no tool is refused: {shorten(error.text, 80)}"
    raise Failed(f"A tool choice that names no tool was accepted, and brought {shorten(str(answer.content), 60)}.")


async def _forced(probe: Probe, asked: Message, offered: JSONObject) -> ToolCall:
    function = offered["function"]
    name = str(function["name"]) if isinstance(function, dict) else ""
    call = _only_call(await probe.ask([asked], tools=[offered], tool_choice=choose(name)))
    valid_call(call, [offered], forced=True)
    return call


def _only_call(answer: Reply) -> ToolCall:
    if len(answer.calls) != 1:
        said = f"{len(answer.calls)} calls" if answer.calls else f"none, but {shorten(answer.text, 60)!r}"
        raise Failed(f"One call was to come; there came {said}. {answer.note}".strip())
    return answer.calls[0]


def _need(probe: Probe) -> None:
    if not probe.facts.forced_calls:
        raise Skipped("A call cannot be forced here.")

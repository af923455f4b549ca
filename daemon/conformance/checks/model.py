"""What the model manages by itself. The protocol must hold all the same; a model that does not call is weak, not wrong."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from daemon.conformance.checks.basics import compare
from daemon.conformance.outcome import Failed, Weak, shorten
from daemon.conformance.probe import Probe, no_call, user, valid_call
from daemon.conformance.replies import Reply, ToolCall
from daemon.conformance.tools import FILES, LOOKUP, WEATHER_FREE
from daemon.records import JSONObject, Message

_SYSTEM: Message = {"role": "system", "content": "You are a helpful assistant. Use the tools that you are given."}
_WEATHER: list[Message] = [_SYSTEM, user("What is the weather in Lisbon right now? Call the get_weather tool.")]
_DOOR: list[Message] = [_SYSTEM, user("What is the code of the blue door? Call the look_up tool.")]
_CODE = "7431"
_BLOCK = re.compile(r"<{5,9} SEARCH\n(.*?)\n={5,9}\n(.*?)\n>{5,9} REPLACE", re.DOTALL)
_EDIT = """The file sums.py has a mistake:

```python
def add(a, b):
    return a - b
```

Correct it. Answer with nothing but one block of this form, in which the first lines stand in the file and the second replace them:

sums.py
<<<<<<< SEARCH
lines of the file
=======
lines in their place
>>>>>>> REPLACE"""


async def tools_read(probe: Probe) -> str:
    """A template that knows no tools must not drop them in silence."""
    without = await probe.ask(_WEATHER, max_tokens=1)
    offered = await probe.ask(_WEATHER, tools=[*FILES], max_tokens=1)
    added = offered.prompt_tokens - without.prompt_tokens
    if added < len(FILES) * 5:
        raise Failed(f"Four tools make the prompt only {max(0, added)} tokens longer: the model is never shown them.")
    return f"The model is shown its tools: four of them take {added} tokens."


async def edit(probe: Probe) -> str:
    """What agents without tools ask of a model: a block that replaces lines which do stand in the file."""
    answer = await probe.ask([user(_EDIT)])
    found = _BLOCK.search(answer.text)
    if found and "return a - b" in found[1] and "return a + b" in found[2] and "a - b" not in found[2]:
        return "Shown a file, the model writes a block that corrects it."
    raise Weak(f"Shown a file, the model does not write the block that corrects it: {shorten(answer.text, 80)!r}.")


async def auto(probe: Probe) -> str:
    async def once(stream: bool) -> str:
        tools = [WEATHER_FREE]
        call = _first(await probe.ask(_WEATHER, stream=stream, tools=[*tools]), tools)
        valid_call(call, tools, forced=False)
        return f"Asked for it, the model calls a tool: {call.name}({shorten(call.arguments, 60)})."

    return await _either_way(once)


async def auto_stream(probe: Probe) -> str:
    """Nobody forces a call: what the model writes comes out the same, streamed or not."""
    return await compare(probe, _WEATHER, {"tools": [WEATHER_FREE]})


async def choice(probe: Probe) -> str:
    """The right one of several."""
    call = _first(await probe.ask([_SYSTEM, user("Show me the text of the file notes.txt.")], tools=[*FILES]), FILES)
    arguments = valid_call(call, FILES, forced=False)
    reads = call.name == "read_file" or (call.name == "run_command" and "cat" in str(arguments.get("command")))
    if not reads or "notes.txt" not in call.arguments:
        raise Weak(f"To read a file the model called {call.name}({shorten(call.arguments, 60)}).")
    return f"Of four tools it takes the right one: {call.name}({shorten(call.arguments, 60)})."


async def parallel(probe: Probe) -> str:
    async def once(stream: bool) -> str:
        asked = user("What is the weather in Lisbon, and what is it in Oslo? Call get_weather for both at once.")
        tools = [WEATHER_FREE]
        answer = await probe.ask([_SYSTEM, asked], stream=stream, tools=[*tools], parallel_tool_calls=True)
        _first(answer, tools)
        for call in answer.calls:
            valid_call(call, tools, forced=False)
        if len(answer.calls) < 2:
            raise Weak("Asked for two calls at once, the model made one.")
        return f"{len(answer.calls)} calls in one reply, each with its own id."

    return await _either_way(once)


async def result(probe: Probe) -> str:
    """The whole round: asked, called, answered with the result."""
    call = ToolCall("call_a1b2c3d4e", "look_up", '{"door":"blue"}')
    asked = await probe.ask(_DOOR, tools=[LOOKUP])
    made = [made for made in asked.calls if made.name == "look_up"]
    call = made[0] if made else call
    function: JSONObject = {"name": call.name, "arguments": call.arguments}
    turn: list[Message] = [
        *_DOOR,
        {"role": "assistant", "content": None, "tool_calls": [{"id": call.id, "type": "function", "function": function}]},
        {"role": "tool", "tool_call_id": call.id, "content": f'{{"door": "blue", "code": "{_CODE}"}}'},
    ]
    answer = await probe.ask(turn, tools=[LOOKUP])
    if _CODE in answer.text:
        return f"Given a tool's result, the model answers with it: {shorten(answer.text, 60)!r}."
    if answer.calls:
        raise Weak("Given a tool's result, the model calls the tool again instead of answering.")
    raise Weak(f"Given a tool's result, the model does not answer with it: {shorten(answer.text, 80)!r}.")


def _first(answer: Reply, tools: list[JSONObject]) -> ToolCall:
    if not answer.calls:
        raise no_call(answer, tools)
    return answer.calls[0]


async def _either_way(once: Callable[[bool], Awaitable[str]]) -> str:
    """Unstreamed, then streamed: both must keep to the protocol; what the first says counts."""
    said = await once(False)
    await once(True)
    return said

"""The tools of a stored request, whichever wire it came over, in the form of the chat wire.

A record keeps them as its client sent them. All three wires name a function, say what it is for and give a JSON schema of its arguments;
they differ in where. Tools that are no functions (`web_search`, `namespace`, …) are left out, as they are when the request is answered.
"""

from __future__ import annotations

from daemon.records import JSON, JSONObject

_KEPT = ("name", "description", "parameters", "strict")


def chat_tools(request: JSONObject) -> tuple[JSONObject, ...]:
    """The function tools in a request's `tools`."""
    tools = request.get("tools")
    found = (chat_tool(tool) for tool in tools) if isinstance(tools, list) else ()
    return tuple(tool for tool in found if tool is not None)


def chat_tool(tool: JSON) -> JSONObject | None:
    """One tool in chat form; None for what is no function."""
    if not isinstance(tool, dict) or tool.get("type", "function") not in ("function", "custom"):
        return None
    if isinstance(tool.get("function"), dict):  # the chat wire's
        return tool
    if not isinstance(tool.get("name"), str):
        return None
    if "input_schema" in tool:  # the messages wire's
        tool = {**tool, "parameters": tool["input_schema"]}
    elif tool.get("type") != "function":
        return None
    return {"type": "function", "function": {name: tool[name] for name in _KEPT if tool.get(name) is not None}}

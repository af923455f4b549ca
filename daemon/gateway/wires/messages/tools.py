"""The tools of a messages request in OpenAI's form, which templates and records know."""

from __future__ import annotations

from collections.abc import Iterator

from daemon.errors import BadRequest
from daemon.gateway.wires.fields import array, bad, boolean, text
from daemon.gateway.wires.tool_fields import tool_names
from daemon.records import JSON, JSONObject

_TYPES = (None, "custom")


def parse_tools(body: JSONObject) -> tuple[JSONObject, ...]:
    """The client's own tools. Those that Anthropic runs or defines (`web_search_…`, `bash_…`) are skipped.

    A tool whose loading is deferred is shown once a tool's result refers to it, as a search for tools does.
    """
    found: list[JSONObject] = []
    deferred: dict[str, JSONObject] = {}
    for index, tool in enumerate(array(body, "tools")):
        if not isinstance(tool, dict):
            raise bad(f"tools[{index}]", "an object", tool)
        if tool.get("type") not in _TYPES:
            continue
        made = _function(tool, f"tools[{index}]")
        if tool.get("defer_loading") is True:
            deferred[str(tool["name"])] = made
        else:
            found.append(made)
    if deferred:
        found += [deferred[name] for name in dict.fromkeys(referred(body)) if name in deferred]
    return tuple(found)


def parse_choice(body: JSONObject, tools: tuple[JSONObject, ...]) -> tuple[JSON, bool]:
    """The tool choice in OpenAI's form, and whether several calls may come at once."""
    choice = body.get("tool_choice")
    if choice is None:
        return "auto", True
    if not isinstance(choice, dict):
        raise bad("tool_choice", "an object", choice)
    parallel = not boolean(choice, "disable_parallel_tool_use")
    kind = choice.get("type")
    if kind in ("auto", "none"):
        return kind, parallel
    if kind == "any":
        if not tools:
            raise BadRequest("'tool_choice' is any, but there are no tools of the client's to call.", param="tool_choice")
        return "required", parallel
    if kind != "tool":
        raise bad("tool_choice.type", "auto, any, tool or none", kind)
    name = choice.get("name")
    if not isinstance(name, str):
        raise bad("tool_choice.name", "the name of a tool", name)
    if name not in tool_names(tools):
        raise BadRequest(f"'tool_choice' names {name[:60]!r}, which is none of the tools.", param="tool_choice")
    return {"type": "function", "function": {"name": name}}, parallel


def referred(body: JSONObject) -> Iterator[str]:
    """The names in `tool_reference` blocks of tool results."""
    for message in array(body, "messages"):
        for block in _blocks(message):
            if block.get("type") == "tool_result":
                for part in _blocks(block):
                    name = part.get("tool_name")
                    if part.get("type") == "tool_reference" and isinstance(name, str):
                        yield name


def _blocks(holder: JSON) -> list[JSONObject]:
    content = holder.get("content") if isinstance(holder, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _function(tool: JSONObject, name: str) -> JSONObject:
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise bad(f"{name}.name", "a text", tool.get("name"))
    schema = tool.get("input_schema")
    if not isinstance(schema, dict):
        raise bad(f"{name}.input_schema", "an object", schema)
    function: JSONObject = {"name": tool["name"]}
    if (description := text(tool, "description")) is not None:
        function["description"] = description
    function["parameters"] = schema
    if boolean(tool, "strict"):
        function["strict"] = True
    return {"type": "function", "function": function}

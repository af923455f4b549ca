"""What `tool_choice` asks for: whether a tool must be called, and which may be."""

from __future__ import annotations

from daemon.errors import BadRequest
from daemon.records import JSON, JSONObject


def forced(choice: JSON, tools: list[JSONObject]) -> bool:
    """Whether the reply must be a call. Raises BadRequest for a choice that means nothing, or a tool that is not there."""
    if choice in ("auto", "none", None):
        return False
    if choice != "required" and _function_name(choice) is None:
        raise BadRequest('tool_choice must be auto, none, required or {"type": "function", "function": {"name": …}}.', param="tool_choice")
    if choice == "required" and not tools:
        raise BadRequest("tool_choice is required, but there are no tools.", param="tool_choice")
    if choice != "required" and not allowed_tools(choice, tools):
        raise BadRequest(f"tool_choice names {_function_name(choice)}, which is not among the tools.", param="tool_choice")
    return True


def allowed_tools(choice: JSON, tools: list[JSONObject]) -> dict[int, JSONObject]:
    """The tools that may be called, by their place in the request."""
    if choice == "none":
        return {}
    name = _function_name(choice)
    return {index: tool for index, tool in enumerate(tools) if name is None or _function_name(tool) == name}


def _function_name(choice: JSON) -> str | None:
    """The name in OpenAI's form of a tool, or of a choice of one."""
    function = choice.get("function") if isinstance(choice, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return name if isinstance(name, str) else None

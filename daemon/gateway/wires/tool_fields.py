"""The fields of a chat request that say which tools there are and how the reply must look."""

from __future__ import annotations

from daemon.errors import BadRequest
from daemon.gateway.wires.fields import an_object, array, bad
from daemon.records import JSON, JSONObject

_FORMATS = ("text", "json_object", "json_schema")
_CHOICES = ("auto", "none", "required")
_MAX_TEMPLATE_VALUES = 32
_MAX_TEMPLATE_TEXT = 4096


def parse_tools(body: JSONObject) -> tuple[JSONObject, ...]:
    """The function tools; other types (`web_search`, `custom`, …) are skipped."""
    if body.get("functions") and not body.get("tools"):
        raise BadRequest("'functions' is the older form, which is not read.", "Send 'tools' and 'tool_choice'.", param="functions")
    tools: list[JSONObject] = []
    for index, tool in enumerate(array(body, "tools")):
        if not isinstance(tool, dict):
            raise bad(f"tools[{index}]", "an object", tool)
        if tool.get("type", "function") != "function":
            continue
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise bad(f"tools[{index}].function.name", "a text", function)
        parameters = function.get("parameters")
        if parameters is not None and not isinstance(parameters, dict):
            raise bad(f"tools[{index}].function.parameters", "an object", parameters)
        tools.append(tool)
    return tuple(tools)


def parse_tool_choice(body: JSONObject, tools: tuple[JSONObject, ...]) -> JSON:
    """`auto`, `none`, `required`, or the object that names one of `tools`."""
    choice = body.get("tool_choice")
    if choice is None:
        return "auto"
    if isinstance(choice, str) and choice in _CHOICES:
        if choice == "required" and not tools:
            raise BadRequest("'tool_choice' is required, but there are no function tools to call.", param="tool_choice")
        return choice
    function = choice.get("function") if isinstance(choice, dict) and choice.get("type") == "function" else None
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise bad("tool_choice", "auto, none, required or an object that names a function", choice)
    if name not in tool_names(tools):
        raise BadRequest(f"'tool_choice' names {name[:60]!r}, which is none of the tools.", param="tool_choice")
    return choice


def tool_names(tools: tuple[JSONObject, ...]) -> set[str]:
    functions = (tool.get("function") for tool in tools)
    return {str(function.get("name")) for function in functions if isinstance(function, dict)}


def parse_response_format(body: JSONObject) -> JSONObject | None:
    """None for plain text. The schema itself is the engine's to judge."""
    form = an_object(body, "response_format")
    if form is None:
        return None
    kind = form.get("type")
    if kind not in _FORMATS:
        raise bad("response_format", "of type text, json_object or json_schema", kind)
    if kind == "json_schema" and not isinstance(form.get("json_schema"), dict):
        raise bad("response_format.json_schema", "an object", form.get("json_schema"))
    return None if kind == "text" else form


def parse_template_values(body: JSONObject) -> JSONObject:
    """`chat_template_kwargs`: further variables of the model's chat template, such as `enable_thinking`."""
    values = an_object(body, "chat_template_kwargs") or {}
    if len(values) > _MAX_TEMPLATE_VALUES:
        raise BadRequest(f"'chat_template_kwargs' may hold at most {_MAX_TEMPLATE_VALUES} values.", param="chat_template_kwargs")
    for name, value in values.items():
        if isinstance(value, list | dict) or (isinstance(value, str) and len(value) > _MAX_TEMPLATE_TEXT):
            raise bad(
                f"chat_template_kwargs.{name[:60]}", f"a number, a boolean or a text of at most {_MAX_TEMPLATE_TEXT} characters", value
            )
    return dict(values)

"""Our own words about tools, for models whose chat template does not mention them.

The form is the one that Hermes and Qwen models were trained on, and many others have seen; `formats` reads it from the reply. What the
conversation holds of calls and results is written in that form too. It costs few tokens: one line a tool.
"""

from __future__ import annotations

import json

from daemon.records import JSON, JSONObject

_BEFORE = "You can use these functions:"
_AFTER = """To use one, answer with
<tool_call>
{"name": "NAME", "arguments": {"KEY": "VALUE"}}
</tool_call>
The result comes back in <tool_response>. Use a function only when it helps, and only these; otherwise answer in plain text."""
_UNTOLD = {"$schema", "additionalProperties", "title", "strict"}  # what a small model does not need to be told


def tool_prompt(tools: list[JSONObject]) -> str:
    """System text that lists `tools` (OpenAI form) and says how to call one."""
    lines = [json.dumps(_told(tool.get("function")), ensure_ascii=False) for tool in tools]
    return "\n".join([_BEFORE, *lines, _AFTER])


def call_text(call: JSONObject) -> str:
    """A past call. Arguments that came as JSON text are kept as they were written, so that the prompt begins as the reply was."""
    function = call.get("function")
    name, arguments = (function.get("name"), function.get("arguments")) if isinstance(function, dict) else ("", None)
    written = arguments if isinstance(arguments, str) and _is_json(arguments) else json.dumps(arguments or {}, ensure_ascii=False)
    return f'<tool_call>\n{{"name": {json.dumps(name, ensure_ascii=False)}, "arguments": {written}}}\n</tool_call>'


def result_text(content: str) -> str:
    """What a tool gave back."""
    return f"<tool_response>\n{content}\n</tool_response>"


def _told(function: JSON) -> JSON:
    if not isinstance(function, dict):
        return {}
    kept = {key: function[key] for key in ("name", "description") if function.get(key)}
    parameters = function.get("parameters")
    if isinstance(parameters, dict) and parameters.get("properties"):
        kept["parameters"] = _shorter(parameters)
    return kept


def _shorter(schema: JSON, *, names: bool = False) -> JSON:
    """A schema without what says nothing about the arguments; `names`: the keys are names of arguments."""
    if isinstance(schema, list):
        return [_shorter(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _shorter(value, names=key == "properties" and not names) for key, value in schema.items() if names or key not in _UNTOLD}


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True

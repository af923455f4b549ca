"""Past calls as text, for templates that leave them out: in the way of the model's own family where that is known, else in Hermes'."""

from __future__ import annotations

import contextlib
import json
import re

from daemon import json_text
from daemon.engine.llama.chat.tool_prompt import call_text
from daemon.records import JSON, JSONObject

_KEYWORD = re.compile(r"[^\W\d]\w*")


def style_of(template: str) -> str:
    """The style of the template's family: "lfm2", "granite", or "hermes"."""
    if "<|tool_list_start|>" in template or "<|tool_call_start|>" in template or "List of tools: [" in template:
        return "lfm2"
    return "granite" if "<|tool_call|>" in template else "hermes"


def calls_text(calls: list[JSONObject], style: str) -> str:
    """One message's calls."""
    if style == "lfm2":
        return f"<|tool_call_start|>[{', '.join(map(_python_call, calls))}]<|tool_call_end|>"
    if style == "granite":
        return f"<|tool_call|>{json.dumps([_json_call(call) for call in calls], ensure_ascii=False)}"
    return "\n".join(map(call_text, calls))


def _read(call: JSONObject) -> tuple[str, JSON]:
    function = call.get("function")
    if not isinstance(function, dict):
        return "", {}
    arguments = function.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):  # what is no JSON stays the text that it is
            arguments = json_text.parse(arguments) if arguments.strip() else {}
    return str(function.get("name")), {} if arguments is None else arguments


def _json_call(call: JSONObject) -> JSONObject:
    name, arguments = _read(call)
    return {"name": name, "arguments": arguments}


def _python_call(call: JSONObject) -> str:
    name, arguments = _read(call)
    if not isinstance(arguments, dict) or not all(_KEYWORD.fullmatch(key) for key in arguments):
        return json.dumps(_json_call(call), ensure_ascii=False)
    return f"{name}({', '.join(f'{key}={_python(value)}' for key, value in arguments.items())})"


def _python(value: JSON) -> str:
    """As Python writes it, texts as JSON does."""
    if isinstance(value, list):
        return f"[{', '.join(map(_python, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json.dumps(key, ensure_ascii=False)}: {_python(item)}' for key, item in value.items())}}}"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)

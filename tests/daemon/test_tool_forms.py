"""What was offered on any wire reads the same afterwards."""

from __future__ import annotations

from daemon.records import JSON, JSONObject
from daemon.tool_forms import chat_tools

SCHEMA: JSONObject = {"type": "object", "properties": {"city": {"type": "string"}}}
CHAT: JSONObject = {"type": "function", "function": {"name": "weather", "description": "Now.", "parameters": SCHEMA}}


def test_the_forms_of_three_wires_are_one_tool() -> None:
    wires: list[JSONObject] = [
        CHAT,
        {"type": "function", "name": "weather", "description": "Now.", "parameters": SCHEMA, "strict": None},
        {"name": "weather", "description": "Now.", "input_schema": SCHEMA, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "name": "weather", "description": "Now.", "input_schema": SCHEMA},
    ]
    for tool in wires:
        assert chat_tools({"tools": [tool]}) == (CHAT,), tool


def test_what_is_no_function_is_left_out() -> None:
    others: list[JSON] = [
        {"type": "web_search"},
        {"type": "namespace", "name": "n", "tools": []},
        {"type": "custom", "name": "patch", "format": {"type": "grammar"}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "function"},
        {"name": "bare"},
        3,
        None,
    ]
    assert chat_tools({"tools": others}) == () == chat_tools({"tools": 3}) == chat_tools({})

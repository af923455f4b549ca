"""A reply in each format, as the family's models write it: a call of `write` with `ARGUMENTS`, then one of `list`."""

from __future__ import annotations

import json

from tests.engine.replies import tool

TOOLS = (
    tool(
        "write",
        path={"type": "string"},
        lines={"type": "integer"},
        options={"type": "object"},
        keep={"type": "boolean"},
        mode={"enum": ["a", "b"]},
        limit={"anyOf": [{"type": "integer"}, {"type": "null"}]},
    ),
    tool("list"),
)
ARGUMENTS = {"path": 'a "b"\n<c>', "lines": 3, "options": {"x": [1, "y"]}, "keep": True, "limit": None}
TEXT = json.dumps(ARGUMENTS)

WRITE, LIST = f'{{"name": "write", "arguments": {TEXT}}}', '{"name": "list", "arguments": {}}'

REPLIES = {
    "hermes": f"<tool_call>\n{WRITE}\n</tool_call>\n<tool_call>\n{LIST}\n</tool_call>",
    "qwen-coder": """<tool_call>
<function=write>
<parameter=path>
a "b"
<c>
</parameter>
<parameter=lines>
3
</parameter>
<parameter=options>
{"x": [1, "y"]}
</parameter>
<parameter=keep>
True
</parameter>
<parameter=limit>
null
</parameter>
</function>
</tool_call>
<function=list>
</function>
</tool_call>""",
    "seed": """<seed:tool_call>
<function=write>
<parameter=path>a "b"
<c></parameter>
<parameter=lines>3</parameter>
<parameter=options>{'x': [1, 'y']}</parameter>
<parameter=keep>True</parameter>
<parameter=limit>None</parameter>
</function>
</seed:tool_call>
<seed:tool_call>
<function=list>
</function>
</seed:tool_call>""",
    "glm": """<tool_call>write
<arg_key>path</arg_key>
<arg_value>a "b"
<c></arg_value>
<arg_key>lines</arg_key><arg_value>3</arg_value>
<arg_key>options</arg_key>
<arg_value>{"x": [1, "y"]}</arg_value><arg_key>keep</arg_key><arg_value>true</arg_value>
<arg_key>limit</arg_key><arg_value>null</arg_value></tool_call><tool_call>list</tool_call>""",
    "minimax": """<minimax:tool_call>
<invoke name="write">
<parameter name="path">a "b"
<c></parameter>
<parameter name="lines">3</parameter>
<parameter name="options">{"x": [1, "y"]}</parameter>
<parameter name="keep">true</parameter>
<parameter name="limit">null</parameter>
</invoke>
<invoke name="list">
</invoke>
</minimax:tool_call>""",
    "minicpm": """<function name="write"><param name="path"><![CDATA[a "b"
<c>]]></param><param name="lines">3</param><param name="options">{'x': [1, 'y']}</param><param name="keep">True</param>\
<param name="limit">None</param></function>
<function name="list"></function>""",
    "hy3": """<tool_calls:opensource>
<tool_call:opensource>write<tool_sep:opensource>
<arg_key:opensource>path</arg_key:opensource>
<arg_value:opensource>a "b"
<c></arg_value:opensource>
<arg_key:opensource>lines</arg_key:opensource>
<arg_value:opensource>3</arg_value:opensource>
<arg_key:opensource>options</arg_key:opensource>
<arg_value:opensource>{"x": [1, "y"]}</arg_value:opensource>
<arg_key:opensource>keep</arg_key:opensource>
<arg_value:opensource>true</arg_value:opensource>
<arg_key:opensource>limit</arg_key:opensource>
<arg_value:opensource>null</arg_value:opensource>
</tool_call:opensource>
<tool_call:opensource>list<tool_sep:opensource>
</tool_call:opensource>
</tool_calls:opensource>""",
    "deepseek-dsml": """<｜DSML｜function_calls>
<｜DSML｜invoke name="write">
<｜DSML｜parameter name="path" string="true">a "b"
<c></｜DSML｜parameter>
<｜DSML｜parameter name="lines" string="false">3</｜DSML｜parameter>
<｜DSML｜parameter name="options" string="false">{"x": [1, "y"]}</｜DSML｜parameter>
<｜DSML｜parameter name="keep" string="false">true</｜DSML｜parameter>
<｜DSML｜parameter name="limit" string="false">null</｜DSML｜parameter>
</｜DSML｜invoke>
<｜DSML｜invoke name="list">
</｜DSML｜invoke>
</｜DSML｜function_calls>""",
    "deepseek": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>write<｜tool▁sep｜>{TEXT}<｜tool▁call▁end｜>"
    "<｜tool▁call▁begin｜>list<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek-fenced": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>write\n```json\n{TEXT}\n```<｜tool▁call▁end｜>\n"
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>list\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{TEXT}<|tool_call_end|>"
    "<|tool_call_begin|>functions.list:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
    "mistral": f"[TOOL_CALLS]write[CALL_ID]a1b2c3d4e[ARGS]{TEXT}[TOOL_CALLS]list[ARGS]{{}}",
    "mistral-array": f'[TOOL_CALLS] [{{"name": "write", "arguments": {TEXT}, "id": "a1b2c3d4e"}}, {LIST}]',
    "llama3": f'{{"name": "write", "parameters": {TEXT}}}; {{"type": "function", "name": "list", "parameters": {{}}}}',
    "gemma4": '<|tool_call>call:write{path:<|"|>a "b"\n<c><|"|>,lines:3,options:{x:[1,<|"|>y<|"|>]},keep:true,limit:null}<tool_call|>'
    "<|tool_call>call:list{}<tool_call|>",
    "functiongemma": '<start_function_call>call:write{path:<escape>a "b"\n<c><escape>,lines:3,options:{x:[1,<escape>y<escape>]},keep:true,'
    "limit:null}<end_function_call><start_function_call>call:list{}<end_function_call>",
    "lfm2": "<|tool_call_start|>[write(path='a \"b\"\\n<c>', lines=3, options={\"x\": [1, 'y']}, "
    "keep=True, limit=None), list()]<|tool_call_end|>",
    "solar": f"<|tool_calls|><|tool_call:begin|>abc<|tool_call:name|>write<|tool_call:args|>{TEXT}<|tool_call:end|>"
    "<|tool_call:begin|>abd<|tool_call:name|>list<|tool_call:args|>{}<|tool_call:end|><|calls|>",
    "functionary-3.1": f"<function=write>{TEXT}</function><function=list>{{}}</function>",
    "functionary-3.2": f">>>write\n{TEXT}>>>list\n{{}}",
    "harmony": f"<|channel|>commentary to=functions.write <|constrain|>json<|message|>{TEXT}<|call|>"
    "<|start|>assistant to=functions.list<|channel|>commentary json<|message|>{}<|call|>",
    "nemotron": f"<TOOLCALL>[{WRITE}, {LIST}]</TOOLCALL>",
    "minimax-m1": f"<tool_calls>\n{WRITE}\n{LIST}\n</tool_calls>",
    "apriel": f'<tool_calls>[{{"name": "write", "arguments": {TEXT}, "id": "1"}}, '
    '{"name": "list", "arguments": {}, "id": "2"}]</tool_calls>',
    "command-r7b": f'<|START_ACTION|>[\n    {{"tool_call_id": "0", "tool_name": "write", "parameters": {TEXT}}},\n'
    '    {"tool_call_id": "1", "tool_name": "list", "parameters": {}}\n]<|END_ACTION|>',
    "command-r": f'Action:\n```json\n[\n    {{"tool_name": "write", "parameters": {TEXT}}},\n'
    '    {"tool_name": "list", "parameters": {}}\n]```',
    "granite3": f"<|tool_call|>[{WRITE}, {LIST}]",
    "gigachat": f"<|function_call|>{WRITE}<|function_call|>{LIST}",
    "gigachat3": f"<|message_sep|>\n\nfunction call<|role_sep|>\n{WRITE}<|message_sep|>\n\n"
    'function call<|role_sep|>\n{"name": "list", "arguments": {}}',
    "firefunction": f" functools[{WRITE}, {LIST}]",
    "apertus": f'<|tools_prefix|>[{{"write": {TEXT}}}, {{"list": {{}}}}]<|tools_suffix|>',
}
REPLIES["deepseek-v4"] = REPLIES["deepseek-dsml"].replace("function_calls", "tool_calls")

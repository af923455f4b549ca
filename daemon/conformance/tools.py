"""The tools that the suite offers. Their arguments are short whatever the model writes, so that a forced call ends."""

from __future__ import annotations

from daemon.records import JSON, JSONObject

HARD_TEXT = 'naïve “quotes”, "straight" ones, a \\backslash, a tab\t, two\nlines, 漢字 and 🐚'


def tool(name: str, description: str, properties: JSONObject | None = None, required: list[JSON] | None = None) -> JSONObject:
    """A function tool with an object of parameters."""
    named: list[JSON] = list(properties or {})
    schema: JSONObject = {"type": "object", "properties": properties or {}, "required": named if required is None else required}
    return {
        "type": "function",
        "function": {"name": name, "description": description, "parameters": {**schema, "additionalProperties": False}},
    }


def one_of(*values: JSON) -> JSONObject:
    return {"type": "string", "enum": list(values)}


TEXT: JSONObject = {"type": "string"}

WEATHER = tool(
    "get_weather", "The weather in a city.", {"city": one_of("Lisbon", "Oslo", "Quito"), "unit": one_of("celsius", "fahrenheit")}
)
WEATHER_FREE = tool("get_weather", "Get the weather in a city.", {"city": {"type": "string", "description": "Name of the city"}})
CLOCK = tool("get_time", "Get the time of day. Takes no arguments.")
BARE: JSONObject = {"type": "function", "function": {"name": "ping", "description": "Check the connection."}}
"""A tool without parameters, as some clients send it."""
NESTED = tool(
    "plan_trip",
    "Plan a trip.",
    {
        "legs": {
            "type": "array",
            "minItems": 2,
            "maxItems": 2,
            "items": {
                "type": "object",
                "properties": {"to": one_of("Lisbon", "Oslo"), "days": {"type": "integer", "enum": [1, 2, 3]}},
                "required": ["to", "days"],
                "additionalProperties": False,
            },
        },
        "return": {"type": "boolean"},
        "class": {"enum": ["first", "second", None]},
    },
)
UNICODE = tool("write_note", "Write a note.", {"text": {"type": "string", "enum": [HARD_TEXT]}})
FILES = [
    tool("read_file", "Read a file and return its text.", {"path": TEXT}),
    tool("write_file", "Write text into a file.", {"path": TEXT, "text": TEXT}),
    tool("list_folder", "List the files in a folder.", {"path": TEXT}),
    tool("run_command", "Run a shell command and return its output.", {"command": TEXT}),
]
LOOKUP = tool("look_up", "Look up the code of a door.", {"door": {"type": "string", "description": "The colour of the door"}})


def many(count: int) -> list[JSONObject]:
    """A long list of tools, each about as large as those of coding agents."""
    return [
        tool(
            f"tool_{number:02}",
            f"Shelf {number} of the archive: find the entries that match a pattern, and return the first of them, each with its place.",
            {
                "pattern": {"type": "string", "description": "A regular expression that the entry has to match"},
                "folder": {"type": "string", "description": "Where to begin; the shelf's own root where this is left out"},
                "limit": {"type": "integer", "description": "Return at most so many entries"},
                "case": {"type": "boolean", "description": "Whether upper and lower case differ"},
            },
            ["pattern"],
        )
        for number in range(1, count + 1)
    ]


def choose(name: str) -> JSONObject:
    """The tool choice that names one function."""
    return {"type": "function", "function": {"name": name}}

"""JSON objects in an agent's files that its user may write too."""

from __future__ import annotations

import json
from collections.abc import Collection

from daemon.errors import DataError
from daemon.harness_tree import SETTINGS_PATH
from daemon.records import JSON, JSONObject


def read_object(agent: str, name: str, text: str | None) -> JSONObject:
    """Empty for a file that is not there, or holds nothing.

    Raises:
        DataError: it is no JSON object; names the agent, the file and the line.
    """
    if text is None or not text.strip():
        return {}
    again = f"Mend or remove the file, then run `reef install {agent}` again."
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"{agent}'s {name}:{error.lineno}: {error.msg}.", again) from error
    except RecursionError as error:
        raise DataError(f"{agent}'s {name}:1: nested too deeply.", again) from error
    if not isinstance(content, dict):
        raise DataError(f"{agent}'s {name} holds no JSON object.", again)
    return content


def write_object(content: JSONObject) -> str:
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def as_object(value: JSON) -> JSONObject:
    """`value` where it is an object; else an empty one."""
    return value if isinstance(value, dict) else {}


def settings_back(agent: str, was: str | None, now: str | None, name: str, own: Collection[str]) -> str | None:
    """The harness's `settings.json` with the values that the agent's file has for them now.

    Args:
        was: as it was laid down; what it does not set is not read.
        name: of the agent's file, of which `now` is the text.
        own: settings that follow the served model, whatever the agent's file says.
    """
    if was is None or now is None:
        return was
    wanted, there = read_object(agent, SETTINGS_PATH, was), read_object(agent, name, now)
    back = {key: wanted[key] if key in own else there[key] for key in wanted if key in there or key in own}
    return was if back == wanted else write_object(back)

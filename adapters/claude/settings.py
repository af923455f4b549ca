"""`settings.json` in Claude Code's folder: what a harness sets, and what Reef needs, beside what its user sets there.

What was put in is noted in `reef.json`, so that the next installation takes out that and nothing else. The token is in neither: Claude Code
reads it from its file by `apiKeyHelper`, again and again, so a renewed token needs no new installation, and no program that the model
starts finds it in its environment.
"""

from __future__ import annotations

import shlex
import sys
from typing import Final

from adapters.claude.environment import MODEL_VARIABLES, model_variables
from adapters.claude.hook.telling import STATUS_FILE
from adapters.claude.merging import merged, without
from adapters.claude.window import Window
from adapters.shared import BINDING_FILE
from adapters.shared.objects import as_object, read_object, write_object
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext
from daemon.harness.npm_adapter import agent_folder
from daemon.harness.typed import COMMANDS
from daemon.records import JSON, JSONObject

SETTINGS_FILE: Final = "settings.json"
FIRST_FILE: Final = "reef-settings.json"
"""What comes before a project's own settings: it is named on Claude Code's command line."""
AGENT: Final = "Claude Code"

_HOOK: Final = "adapters.claude.hook"
_EVENTS: Final = (
    ("SessionStart", "startup|resume|clear", 5),
    ("UserPromptExpansion", "|".join(COMMANDS), 180),
    ("Stop", "", 5),
    ("StopFailure", "", 5),
    ("SessionEnd", "", 5),
)
"""Event, which of them, and how many seconds the hook may take."""
_OWN: Final = ("apiKeyHelper", "skipWebFetchPreflight", "disableDeepLinkRegistration")
_PERMISSIONS: Final[JSONObject] = {
    "disableAutoMode": "disable",  # its safety check runs on the maker's server; with any other it stops at the first command that needs it
    "deny": ["WebSearch"],  # the maker's server searches, not Claude Code
}


def given_settings(context: InstallContext, window: Window, wanted: JSONObject, mine: JSONObject) -> JSONObject:
    """All that is put into the file: what the harness wants, Reef's own over it, and a status line where nobody has one.

    Args:
        mine: what the file says without Reef.
    """
    given = merged(wanted, own_settings(context, window))
    if "statusLine" not in mine and "statusLine" not in wanted:
        command = f"cat {shlex.quote(str(agent_folder(context) / STATUS_FILE))} 2>/dev/null"
        given["statusLine"] = {"type": "command", "command": command, "refreshInterval": 3}
    return given


def own_settings(context: InstallContext, window: Window) -> JSONObject:
    """Follow the served model and Reef's place, whatever a harness or a person says."""
    command = hook_command(context)
    hooks: JSONObject = {}
    for event, matcher, seconds in _EVENTS:
        entry: JSONObject = {"hooks": [{"type": "command", "command": command, "timeout": seconds}]}
        hooks[event] = [{"matcher": matcher, **entry} if matcher else entry]
    return {
        "apiKeyHelper": _key_helper(context),
        "env": {**model_variables(context, window)},
        "hooks": hooks,
        "permissions": _PERMISSIONS,
        "skipWebFetchPreflight": True,  # else the maker is asked about each address
        "disableDeepLinkRegistration": "disable",  # else its links open this one, and no longer the user's own
    }


def hook_command(context: InstallContext) -> str:
    """Without the user's PYTHONPATH: it may lead into the project that is worked on."""
    return shlex.join([sys.executable, "-E", "-P", "-m", _HOOK, str(agent_folder(context) / BINDING_FILE)])


def first_text(context: InstallContext) -> str:
    """So that no project that is worked on can lead the requests, and the token with them, elsewhere. It is read at the start alone."""
    env: JSONObject = {"ANTHROPIC_BASE_URL": context.base_url.rstrip("/")}
    return write_object({"apiKeyHelper": _key_helper(context), "env": env, "permissions": {"disableAutoMode": "disable"}})


def settings_text(present: str | None, given: JSONObject, before: JSONObject) -> str:
    """Raises DataError: what is there is no JSON object.

    Args:
        before: what the last installation put in.
    """
    return write_object(merged(mine(present, before), given))


def mine(present: str | None, before: JSONObject) -> JSONObject:
    """What the user has set in the file themselves."""
    return without(read_object(AGENT, SETTINGS_FILE, present), before)


def without_reef(text: str) -> str | None:
    """What is left of the file without what is Reef's; None: nothing. A file that cannot be read is left as it is."""
    try:
        settings = read_object(AGENT, SETTINGS_FILE, text)
    except DataError:
        return text
    given: JSONObject = {name: settings[name] for name in _OWN if name in settings}
    given["permissions"] = _PERMISSIONS
    given["env"] = {name: value for name, value in as_object(settings.get("env")).items() if name in MODEL_VARIABLES}
    hooks: JSONObject = {}
    for event, entries in as_object(settings.get("hooks")).items():
        hooks[event] = [one for one in entries if f" -m {_HOOK} " in str(one)] if isinstance(entries, list) else []
    given["hooks"] = hooks
    status: JSON = settings.get("statusLine")
    if f"/{STATUS_FILE}" in str(status):
        given["statusLine"] = status
    rest = without(settings, given)
    return write_object(rest) if rest else None


def _key_helper(context: InstallContext) -> str:
    return f"cat {shlex.quote(str(context.client_token_path))}"

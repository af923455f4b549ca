"""`opencode.json` and `tui.json` in opencode's folder: Reef as a provider with one model, and Reef's plugin for the terminal.

Both are opencode's and its user's too: only what is Reef's is set, the rest stays. The token itself is in neither: opencode reads the
client token's file when it starts, so a renewed token needs no new installation.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Final

from adapters.opencode.plugin import TERMINAL
from adapters.shared.objects import as_object, read_object, write_object
from daemon.errors import DataError
from daemon.harness.window import too_small
from daemon.records import JSONObject

PROVIDER: Final = "reef"
CONFIG_FILE: Final = "opencode.json"
TERMINAL_FILE: Final = "tui.json"

OWN_SETTINGS: Final = frozenset({"$schema", "model", "small_model", "share", "autoupdate", "provider"})
"""Follow the served model, or keep everything on this machine, whatever a harness or a person says."""

SMALLEST_CONTEXT_TOKENS: Final = 12_288
"""opencode's own prompt and its tools take about 7,600 tokens of every request."""

# opencode writes a file that says no schema anew.
_CONFIG_SCHEMA = "https://opencode.ai/config.json"
_TERMINAL_SCHEMA = "https://opencode.ai/tui.json"
_LOCAL: JSONObject = {"share": "disabled", "autoupdate": False}


def provider(
    base_url: str, scenario: str, client_token: Path, model_id: str, context_tokens: int, max_tokens: int, release_id: str = ""
) -> JSONObject:
    """opencode's description of Reef as a provider with one model. `base_url` is the daemon's, without `/v1`.

    Raises:
        Unsupported: the window is too small for opencode.
    """
    if context_tokens < SMALLEST_CONTEXT_TOKENS:
        raise too_small("opencode", SMALLEST_CONTEXT_TOKENS, context_tokens, "or use pi: reef install pi")
    release: JSONObject = {"x-reef-tag-release": release_id} if release_id else {}
    # opencode compacts once less than `output` is free.
    limit: JSONObject = {"context": context_tokens, "output": max(1, min(max_tokens, context_tokens // 4))}
    return {
        "npm": "@ai-sdk/openai-compatible",  # comes with opencode
        "name": "Reef",
        "options": {
            "baseURL": f"{base_url.rstrip('/')}/v1",
            "apiKey": f"{{file:{client_token}}}",
            "headers": {"x-reef-tag-client": "opencode", "x-reef-scenario": scenario, **release},
        },
        "models": {model_id: {"name": model_id, "tool_call": True, "limit": limit}},
    }


def config_text(present: str | None, wanted: JSONObject, before: Collection[str], reef: JSONObject, model_id: str) -> str:
    """`opencode.json` with the harness's settings and Reef.

    Args:
        wanted: what the harness sets.
        before: names that the last harness set; those that this one does not are taken out.

    Raises:
        DataError: what is there is no JSON object.
    """
    there = read_object("opencode", CONFIG_FILE, present)
    settings = {name: value for name, value in there.items() if name not in before or name in OWN_SETTINGS}
    providers = {**as_object(settings.get("provider")), **as_object(wanted.get("provider")), PROVIDER: reef}
    model = f"{PROVIDER}/{model_id}"
    own: JSONObject = {"model": model, "small_model": model, **_LOCAL, "provider": providers}
    return write_object({"$schema": _CONFIG_SCHEMA, **settings, **wanted, **own})


def terminal_text(present: str | None) -> str:
    """`tui.json` with Reef's plugin. Raises DataError if what is there is no JSON object."""
    there = read_object("opencode", TERMINAL_FILE, present)
    plugins = there.get("plugin")
    others = [one for one in plugins if one != TERMINAL] if isinstance(plugins, list) else []
    return write_object({"$schema": _TERMINAL_SCHEMA, **there, "plugin": [*others, TERMINAL]})


def without_reef(name: str, text: str) -> str | None:
    """What is left of either file without what is Reef's; None: nothing. A file that cannot be read is left as it is."""
    try:
        content = read_object("opencode", name, text)
    except DataError:
        return text
    rest = _without_provider(content) if name == CONFIG_FILE else _without_plugin(content)
    return write_object(rest) if rest.keys() - {"$schema"} else None


def _without_provider(config: JSONObject) -> JSONObject:
    others = {name: value for name, value in as_object(config.get("provider")).items() if name != PROVIDER}
    rest = {name: value for name, value in config.items() if name != "provider" and (name, value) not in _LOCAL.items()}
    for name in ("model", "small_model"):
        if str(rest.get(name)).startswith(f"{PROVIDER}/"):
            del rest[name]
    return {**rest, "provider": others} if others else rest


def _without_plugin(terminal: JSONObject) -> JSONObject:
    plugins = terminal.get("plugin")
    others = [one for one in plugins if one != TERMINAL] if isinstance(plugins, list) else []
    rest = {name: value for name, value in terminal.items() if name != "plugin"}
    return {**rest, "plugin": others} if others else rest

"""`config.toml` in codex's folder: Reef as the provider of one model, and nothing that calls elsewhere.

codex and its user write the file too: only what is Reef's is set, the rest stays, comments included. The token is not in it: codex runs
`cat` on the client token's file, so a renewed token needs no new installation, and no program that codex starts inherits it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from adapters.codex.toml_edit import Path as Key
from adapters.codex.toml_edit import edit, find, leaves, read_toml, same
from adapters.codex.window import Window
from adapters.shared.objects import read_object, write_object
from daemon.errors import DataError
from daemon.harness.adapter import InstallContext
from daemon.harness_tree import SETTINGS_PATH
from daemon.records import JSON, JSONObject

CONFIG_FILE: Final = "config.toml"
MODELS_FILE: Final = "reef-models.json"
PROVIDER: Final = "reef"
FOLDER_VARIABLE, SESSION_VARIABLE = "REEF_CWD", "REEF_SESSION"
"""What a start of codex adds to its requests' headers."""

_HEAD: Final = """\
# codex's settings in the folder that Reef made for it. Yours may stand here too; `reef update codex` renews what is Reef's:
# the model and its sizes, the provider, and that codex checks for no update and reports nothing.

"""
_PROVIDER: Final = ("model_providers", PROVIDER)
_STATE: Final = ("hooks", "state")
_OWN: Final = (("model",), ("model_provider",), ("model_catalog_json",), ("model_context_window",), ("model_auto_compact_token_limit",))
_QUIET: Final[Mapping[Key, JSON]] = {
    ("check_for_update_on_startup",): False,
    ("analytics", "enabled"): False,
    ("feedback", "enabled"): False,
    ("features", "daemon_auto_start"): False,  # a server of its own in the background would keep the settings that it began with
}
_UNLESS_SET: Final[Mapping[Key, JSON]] = {
    ("features", "plugins"): False,  # fetches a list of plugins from GitHub and chatgpt.com at each start
    ("features", "unbounded_connection_retries"): False,  # a daemon that is down is told, not waited for
    ("skills", "bundled", "enabled"): False,  # they speak of OpenAI's products alone
}
_ALWAYS: Final = frozenset({*_OWN, *_QUIET})
_CODEX_OWN: Final = (("projects",), ("notice",), _STATE, ("tui", "screen_reader_detection_done"))
"""What codex notes for itself; worthless without the folder."""


def provider(context: InstallContext) -> JSONObject:
    headers: JSONObject = {"x-reef-scenario": context.scenario, "x-reef-tag-client": "codex"}
    if context.release_id:
        headers["x-reef-tag-release"] = context.release_id
    return {
        "name": "Reef",
        "base_url": f"{context.base_url.rstrip('/')}/v1",
        "wire_api": "responses",
        "supports_websockets": False,
        "request_max_retries": 2,
        "stream_max_retries": 2,
        "auth": {"command": "cat", "args": [str(context.client_token_path)]},
        "http_headers": headers,
        "env_http_headers": {"x-reef-tag-cwd": FOLDER_VARIABLE, "x-reef-tag-session": SESSION_VARIABLE},
    }


def models_text(model_id: str, window: Window) -> str:
    """What codex must know of a model that is none of OpenAI's; without it codex warns, and asks the server for a list of its own form."""
    model: JSONObject = {
        "slug": model_id,
        "display_name": model_id,
        "description": "Served by Reef",
        "base_instructions": resources.files("adapters.codex").joinpath("instructions.md").read_text(encoding="utf-8"),
        "context_window": window.context,
        "truncation_policy": {"mode": "tokens", "limit": window.tool_output},
        "shell_type": "unified_exec",
        "input_modalities": ["text"],
        "supported_reasoning_levels": [],
        "experimental_supported_tools": [],
        "support_verbosity": False,
        "supports_parallel_tool_calls": False,
        "supported_in_api": True,
        "visibility": "list",
        "priority": 1,
    }
    return write_object({"models": [model]})


def config_text(
    present: str | None,
    wanted: JSONObject,
    before: Iterable[Key],
    hooks: Mapping[str, str],
    context: InstallContext,
    window: Window,
    agent: Path,
) -> str:
    """`config.toml` with Reef's values and the harness's settings.

    Args:
        wanted: what the harness sets.
        before: what the last harness set; what this one does not is taken out.
        hooks: codex's name of each hook that is trusted → its hash.
        agent: codex's folder.

    Raises:
        DataError: what is there is no TOML, or has a value where a table is needed.
    """
    there = read_toml(CONFIG_FILE, present)
    settings = {key: value for key, value in leaves(wanted) if not _is_own(key)}
    put: dict[Key, JSON] = {
        **settings,
        ("model",): context.model_id,
        ("model_provider",): PROVIDER,
        ("model_catalog_json",): str(agent / MODELS_FILE),
        ("model_context_window",): window.context,
        ("model_auto_compact_token_limit",): window.compact_at,
        **_QUIET,
        **{key: value for key, value in _UNLESS_SET.items() if find(there, key) is None and key not in settings},
        **{(*_PROVIDER, *key): value for key, value in leaves(provider(context))},
        **{(*_STATE, name, "trusted_hash"): digest for name, digest in hooks.items()},
    }
    gone = [key for key in before if key not in settings and not _is_own(key)]
    gone += [key for key, _ in leaves(_table(there, _PROVIDER), _PROVIDER) if key not in put]
    gone += [(*_STATE, name) for name in _table(there, _STATE) if name not in hooks and name.startswith(f"{agent}/")]
    return edit(CONFIG_FILE, present or _HEAD, put, gone)


def settings_names(wanted: JSONObject) -> list[JSON]:
    """What `config_text` sets for the harness, for the next one's `before`."""
    return [list(key) for key, _ in leaves(wanted) if not _is_own(key)]


def names_back(value: JSON) -> list[Key]:
    """The inverse of `settings_names`; empty for what is no such list."""
    return [tuple(map(str, key)) for key in value if isinstance(key, list) and key] if isinstance(value, list) else []


def settings_back(was: str | None, config: str | None) -> str | None:
    """The harness's `settings.json` with the values that `config.toml` has for them now; what it does not set is not read."""
    if was is None or config is None:
        return was
    wanted, there = read_object("codex", SETTINGS_PATH, was), read_toml(CONFIG_FILE, config)
    laid = [(key, value) for key, value in leaves(wanted) if not _is_own(key)]
    changed = [(key, find(there, key)) for key, value in laid if not same(find(there, key), value)]
    if not changed:
        return was
    back: JSONObject = read_object("codex", SETTINGS_PATH, was)
    for key, value in changed:
        table = back
        for part in key[:-1]:
            below = table[part]
            table = below if isinstance(below, dict) else {}
        if value is None:
            table.pop(key[-1], None)
        else:
            table[key[-1]] = _json(value)
    return write_object(back)


def without_reef(text: str) -> str | None:
    """What a person would miss of `config.toml`; None: nothing. A file that cannot be read is left as it is."""
    try:
        there = read_toml(CONFIG_FILE, text)
        ours = there.get("model_provider") == PROVIDER
        gone: list[Key] = [_PROVIDER, *_CODEX_OWN, *(_OWN if ours else ())]
        gone += [key for key, value in {**_QUIET, **_UNLESS_SET}.items() if find(there, key) is value]
        rest = edit(CONFIG_FILE, text, {}, gone).removeprefix(_HEAD)
    except DataError:
        return text
    return rest.lstrip("\n") if rest.strip() else None


def _is_own(key: Key) -> bool:
    return key in _ALWAYS or key[: len(_PROVIDER)] == _PROVIDER or key[: len(_STATE)] == _STATE


def _table(content: Mapping[str, object], key: Key) -> JSONObject:
    found = _json(find(content, key))
    return found if isinstance(found, dict) else {}


def _json(value: object) -> JSON:
    """A TOML value as JSON: times become text."""
    if isinstance(value, dict):
        return {str(key): _json(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_json(one) for one in value]
    return value if isinstance(value, str | int | float | bool) or value is None else str(value)

"""The two files that point pi at Reef: `models.json` and `settings.json` in pi's agent folder.

Only what is Reef's is written; what a person added to either file stays. The token itself is in neither: pi reads
the client token's file when it sends a request, so a renewed token needs no new installation.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from adapters.pi.window import Window
from daemon.errors import DataError
from daemon.files import write_atomic
from daemon.records import JSON, JSONObject

PROVIDER = "reef"

_COMPATIBILITY: JSONObject = {
    "supportsStore": False,
    "supportsDeveloperRole": False,
    "maxTokensField": "max_tokens",
    "sendSessionAffinityHeaders": True,  # without it pi sends no session id on the chat wire
    "sessionAffinityFormat": "openai",
    "promptCacheKeyMode": "enabled",
}
_COMPACTION_KEYS = ("reserveTokens", "keepRecentTokens")


def provider(base_url: str, scenario: str, client_token: Path, model_id: str, window: Window) -> JSONObject:
    """pi's description of Reef as a provider with one model. `base_url` is the daemon's, without `/v1`."""
    return {
        "baseUrl": f"{base_url.rstrip('/')}/v1",
        "api": "openai-completions",
        "apiKey": f"!cat {shlex.quote(str(client_token))}",
        "headers": {"x-reef-tag-client": "pi", "x-reef-scenario": scenario},
        "compat": _COMPATIBILITY,
        "models": [{"id": model_id, "contextWindow": window.context, "maxTokens": window.reply}],
    }


def write_settings(agent_folder: Path, reef: JSONObject, model_id: str, window: Window) -> None:
    """Point the pi whose agent folder this is at Reef; other providers and settings are kept.

    Raises:
        DataError: a file that is there is no JSON object.
        StorageError: the folder cannot be written.
    """
    models = _read_object(agent_folder / "models.json")
    models["providers"] = {**_object(models.get("providers")), PROVIDER: reef}
    settings = _read_object(agent_folder / "settings.json")
    settings["defaultProvider"] = PROVIDER
    settings["defaultModel"] = model_id
    settings["compaction"] = {
        **_object(settings.get("compaction")),
        "reserveTokens": window.reserve,
        "keepRecentTokens": window.keep_recent,
    }
    _write_object(agent_folder / "models.json", models)
    _write_object(agent_folder / "settings.json", settings)


def remove_settings(agent_folder: Path) -> None:
    """Undo `write_settings`; a file that holds nothing else then goes, and so do pi's own empty caches."""
    for name, own in (("models.json", _without_provider), ("settings.json", _without_defaults)):
        path = agent_folder / name
        if path.exists():
            rest = own(_read_object(path))
            if rest:
                _write_object(path, rest)
            else:
                path.unlink()
    for name in ("auth.json", "models-store.json"):
        path = agent_folder / name
        if path.exists() and not _read_object(path):
            path.unlink()


def _without_provider(models: JSONObject) -> JSONObject:
    others = {name: value for name, value in _object(models.get("providers")).items() if name != PROVIDER}
    rest = {name: value for name, value in models.items() if name != "providers"}
    return {**rest, "providers": others} if others else rest


def _without_defaults(settings: JSONObject) -> JSONObject:
    if settings.get("defaultProvider") != PROVIDER:
        return settings
    compaction = {name: value for name, value in _object(settings.get("compaction")).items() if name not in _COMPACTION_KEYS}
    rest = {name: value for name, value in settings.items() if name not in ("defaultProvider", "defaultModel", "compaction")}
    return {**rest, "compaction": compaction} if compaction else rest


def _object(value: JSON) -> JSONObject:
    return value if isinstance(value, dict) else {}


def _read_object(path: Path) -> JSONObject:
    if not path.exists():
        return {}
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read {path}: {error}.", "Mend or remove the file, then run `reef install pi` again.") from error
    if not isinstance(content, dict):
        raise DataError(f"{path} holds no JSON object.", "Mend or remove the file, then run `reef install pi` again.")
    return content


def _write_object(path: Path, content: JSONObject) -> None:
    write_atomic(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n", mode=0o600)

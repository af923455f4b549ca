"""`models.json` and `settings.json` in pi's folder: Reef as a provider with one model, and sizes that fit its window.

Both are pi's and its user's too: only what is Reef's is set, the rest stays. The token itself is in neither: pi reads the client token's
file when it sends a request, so a renewed token needs no new installation.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection
from pathlib import Path

from adapters.pi.window import Window
from adapters.shared.objects import as_object, read_object, write_object
from daemon.errors import DataError
from daemon.records import JSONObject

PROVIDER = "reef"
MODELS_FILE, SETTINGS_FILE = "models.json", "settings.json"

OWN_SETTINGS = frozenset({"defaultProvider", "defaultModel", "compaction"})
"""Follow the served model, whatever a harness or a person says."""

_COMPATIBILITY: JSONObject = {
    "supportsStore": False,
    "supportsDeveloperRole": False,
    "maxTokensField": "max_tokens",
    "sendSessionAffinityHeaders": True,  # without it pi sends no session id on the chat wire
    "sessionAffinityFormat": "openai",
    "promptCacheKeyMode": "enabled",
}
_COMPACTION_KEYS = ("reserveTokens", "keepRecentTokens")


def provider(base_url: str, scenario: str, client_token: Path, model_id: str, window: Window, release_id: str = "") -> JSONObject:
    """pi's description of Reef as a provider with one model. `base_url` is the daemon's, without `/v1`."""
    release: JSONObject = {"x-reef-tag-release": release_id} if release_id else {}
    return {
        "baseUrl": f"{base_url.rstrip('/')}/v1",
        "api": "openai-completions",
        "apiKey": f"!cat {shlex.quote(str(client_token))}",
        "headers": {"x-reef-tag-client": "pi", "x-reef-scenario": scenario, **release},
        "compat": _COMPATIBILITY,
        "models": [{"id": model_id, "contextWindow": window.context, "maxTokens": window.reply}],
    }


def models_text(present: str | None, reef: JSONObject) -> str:
    """`models.json` with Reef in it. Raises DataError if what is there is no JSON object."""
    models = read_object("pi", MODELS_FILE, present)
    return write_object({**models, "providers": {**as_object(models.get("providers")), PROVIDER: reef}})


def settings_text(present: str | None, wanted: JSONObject, before: Collection[str], model_id: str, window: Window) -> str:
    """`settings.json` with the harness's settings and those that follow the model.

    Args:
        wanted: what the harness sets.
        before: names that the last harness set; those that this one does not are taken out.

    Raises:
        DataError: what is there is no JSON object.
    """
    settings = {
        name: value for name, value in read_object("pi", SETTINGS_FILE, present).items() if name not in before or name in OWN_SETTINGS
    }
    compaction = {**as_object(settings.get("compaction")), **as_object(wanted.get("compaction"))}
    sizes: JSONObject = {"reserveTokens": window.reserve, "keepRecentTokens": window.keep_recent}
    own: JSONObject = {"defaultProvider": PROVIDER, "defaultModel": model_id, "compaction": {**compaction, **sizes}}
    return write_object({**settings, **wanted, **own})


def without_reef(name: str, text: str) -> str | None:
    """What is left of either file without what is Reef's; None: nothing. A file that cannot be read is left as it is."""
    try:
        content = read_object("pi", name, text)
    except DataError:
        return text
    rest = _without_provider(content) if name == MODELS_FILE else _without_defaults(content)
    return write_object(rest) if rest else None


def _without_provider(models: JSONObject) -> JSONObject:
    others = {name: value for name, value in as_object(models.get("providers")).items() if name != PROVIDER}
    rest = {name: value for name, value in models.items() if name != "providers"}
    return {**rest, "providers": others} if others else rest


def _without_defaults(settings: JSONObject) -> JSONObject:
    if settings.get("defaultProvider") != PROVIDER:
        return settings
    compaction = {name: value for name, value in as_object(settings.get("compaction")).items() if name not in _COMPACTION_KEYS}
    rest = {name: value for name, value in settings.items() if name not in OWN_SETTINGS}
    return {**rest, "compaction": compaction} if compaction else rest

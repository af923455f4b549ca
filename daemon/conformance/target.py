"""What the suite talks to: the daemon of this home, or any OpenAI-compatible server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from daemon.errors import BadRequest, ConfigError, NotFound, Unauthorized
from daemon.paths import Home

_EVALUATION = "/reef/scenarios/default/evaluation/head/v1"
"""The daemon's chat wire as evaluation uses it: the same code and the same release, after all live requests, and nothing is recorded."""


@dataclass(frozen=True, slots=True)
class Target:
    """`url` ends in /v1 and lists the models; chat requests go to `chat_url`."""

    url: str
    chat_url: str
    key: str = field(default="", repr=False)
    model: str = ""  # empty: the first that is listed
    is_ours: bool = False


def daemon_target(home: Home, model: str = "") -> Target:
    """The running daemon.

    Raises:
        NotFound: none runs.
        Unauthorized: its owner's token cannot be read.
    """
    try:
        facts = json.loads(home.lock.read_text(encoding="utf-8"))
        host, port = str(facts["host"]).strip("[]"), int(facts["port"])
        os.kill(int(facts["pid"]), 0)
    except (OSError, ValueError, KeyError, TypeError):
        hint = "Start it: reef up. To try another server: reef doctor --tools --url http://127.0.0.1:PORT/v1"
        raise NotFound(f"No daemon runs for {home.root}.", hint) from None
    try:
        key = home.owner_token.read_text(encoding="utf-8").strip()
    except OSError as error:
        hint = "Run this as the user who ran `reef init`, or make a token: reef init --yes"
        raise Unauthorized(f"Cannot read {home.owner_token}: {error.strerror}.", hint) from error
    base = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return Target(f"{base}/v1", f"{base}{_EVALUATION}/chat/completions", key, model, is_ours=True)


def url_target(url: str, model: str, key_env: str, environ: Mapping[str, str]) -> Target:
    """Another server; its key is read from the environment variable `key_env`.

    Raises:
        BadRequest: no http(s) URL.
        ConfigError: the variable is not set.
    """
    base = url.rstrip("/").removesuffix("/chat/completions")
    if not base.startswith(("http://", "https://")):
        raise BadRequest(f"{url} is no http(s) URL.", "Give the base URL, such as http://127.0.0.1:11434/v1")
    key = ""
    if key_env:
        key = environ.get(key_env, "").strip()
        if not key:
            raise ConfigError(f"The environment variable {key_env} with the server's key is not set.", f"export {key_env}=…")
    return Target(base, f"{base}/chat/completions", key, model)

"""`reef doctor --tools`: try tool calls against the running daemon or any OpenAI-compatible server, and say which agents will work."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from daemon.conformance.report import Printer, as_json, print_verdicts
from daemon.conformance.suite import run
from daemon.conformance.target import daemon_target, url_target
from daemon.errors import BadRequest
from daemon.paths import Home


@dataclass(frozen=True, slots=True)
class Asked:
    """What to try; an empty `url` means the daemon of this home."""

    url: str = ""
    model: str = ""
    key_env: str = ""


def main(home: Home, asked: Asked, *, json_output: bool = False) -> int:
    """Try, print, and return the exit code: 1 if a check failed. What the model does not manage is no failure.

    Raises:
        ReefError: there is nothing to try it against.
    """
    if asked.key_env and not asked.url:
        raise BadRequest("--key-env belongs to --url.", "For the daemon of this home its own token is used.")
    target = url_target(asked.url, asked.model, asked.key_env, os.environ) if asked.url else daemon_target(home, asked.model)
    if json_output:
        result = asyncio.run(run(target))
        print(as_json(target, result), flush=True)
    else:
        result = asyncio.run(run(target, Printer(target)))
        print_verdicts(result)
    return 1 if result.failed else 0

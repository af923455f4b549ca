"""One line beside the installed agents that says what the daemon serves, by which a launcher sees at once that its agent is out of date.

It changes with a start of the daemon and with the model, and both write it: what was installed since agrees with it anyhow.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from daemon.errors import StorageError
from daemon.files import write_atomic

SERVED: Final = "served"
_HERE = frozenset({"127.0.0.1", "localhost", "::1"})
_log = logging.getLogger("reef.adapters")


def served_line(base_url: str, model_id: str, context_tokens: int) -> str | None:
    """What an agent is told of, on one line that is safe to print; None: the address is not this machine's, so nothing here tells."""
    address = urlsplit(base_url)
    if address.hostname not in _HERE or address.port is None:
        return None
    line = f"{model_id}, {context_tokens} tokens, port {address.port}"
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def tell_agents(agents: Path, base_url: str, model_id: str, context_tokens: int) -> None:
    """Write the line into the folder `agents`, where there is one. An agent works without it: a full disk is only logged."""
    line = served_line(base_url, model_id, context_tokens)
    if not agents.is_dir():
        return
    try:
        if line is None:
            (agents / SERVED).unlink(missing_ok=True)
        else:
            write_atomic(agents / SERVED, line + "\n", mode=0o600)
    except (StorageError, OSError) as error:
        _log.warning("Installed agents are not told what serves: %s", error)


def tell_no_more(agents: Path) -> None:
    """Take the line away: nothing serves. A launcher need not ask a daemon that has ended."""
    try:
        (agents / SERVED).unlink(missing_ok=True)
    except OSError as error:
        _log.warning("Installed agents are not told that nothing serves: %s", error)

"""The running daemon, as its lock file tells: one daemon a home."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from daemon.errors import NotFound
from daemon.paths import Home


@dataclass(frozen=True, slots=True)
class Running:
    """Who runs, and where it listens."""

    pid: int
    host: str
    port: int
    version: str
    started_at: float

    @property
    def url(self) -> str:
        host = self.host.strip("[]")
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"


def find(home: Home) -> Running | None:
    """The daemon of this home, or None. A lock file that a crash left behind counts as none."""
    try:
        facts = json.loads(home.lock.read_text(encoding="utf-8"))
        running = Running(
            int(facts["pid"]), str(facts["host"]), int(facts["port"]), str(facts["version"]), float(facts.get("started_at") or 0)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if is_alive(running.pid) else None


def require(home: Home) -> Running:
    """The daemon of this home.

    Raises:
        NotFound: none runs.
    """
    running = find(home)
    if running is None:
        hint = "Start it: reef up" if home.config.exists() else "Set Reef up first: reef init, then reef up"
        raise NotFound(f"No daemon runs for {home.root}.", hint)
    return running


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

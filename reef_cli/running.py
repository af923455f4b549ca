"""The running daemon, as its lock file tells: one daemon a home."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import NotFound
from daemon.paths import Home
from reef_cli.locations import shown


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
    """The daemon of this home, or None. A lock file that a crash left behind counts as none, whoever has its number now."""
    try:
        facts = json.loads(home.lock.read_text(encoding="utf-8"))
        running = Running(
            int(facts["pid"]), str(facts["host"]), int(facts["port"]), str(facts["version"]), float(facts.get("started_at") or 0)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return running if is_daemon(running.pid) else None


def require(home: Home) -> Running:
    """The daemon of this home.

    Raises:
        NotFound: none runs.
    """
    running = find(home)
    if running is None:
        hint = "Start it: reef up" if home.config.exists() else "Set Reef up first: reef init, then reef up"
        raise NotFound(f"No daemon runs for {shown(home.root)}.", hint)
    return running


def is_daemon(pid: int) -> bool:
    """Whether the process runs and is a daemon of Reef: after a crash or a restart of the machine its number may be another's."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ")  # empty for one that has ended and waits to be reaped
    except OSError:
        if Path("/proc/self/cmdline").exists():
            return False
        command = subprocess.run(["ps", "-p", str(pid), "-o", "command="], capture_output=True, check=False).stdout
    return b" daemon serve" in command

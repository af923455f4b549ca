"""One daemon a home: a file that is locked while it runs and says who runs."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from types import TracebackType

from daemon.errors import ConfigError, Conflict, StorageError
from daemon.paths import Home
from daemon.records import JSONObject


class Instance:
    """Holds the lock of a home; a context manager. The lock goes with the process, however that ends."""

    def __init__(self, home: Home) -> None:
        """
        Raises:
            ConfigError: the home cannot be made or written.
            Conflict: another daemon runs for it.
        """
        self._path = home.lock
        try:
            home.root.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            hint = "Mend its permissions, or choose another with REEF_HOME or --home."
            raise ConfigError(f"Reef's home {home.root} cannot be written: {error.strerror}.", hint) from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._descriptor)
            raise Conflict(f"A daemon already runs for {home.root}: {_who(self._path)}.", "Stop it with: reef down.") from error
        os.ftruncate(self._descriptor, 0)  # what a crashed one left

    def announce(self, facts: JSONObject) -> None:
        """Say who runs: `pid`, `host`, `port`, `version`, `started_at`. Raises StorageError when the disk is full."""
        # In place: a rename would leave the lock on a file that nobody opens any more.
        data = json.dumps(facts).encode() + b"\n"
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, data, 0)
            os.fsync(self._descriptor)
        except OSError as error:
            raise StorageError(f"Cannot write {self._path}: {error.strerror}.", "Free disk space, then start again.") from error

    def close(self) -> None:
        os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _who(path: Path) -> str:
    try:
        facts = json.loads(path.read_text())
        return f"pid {facts['pid']} at http://{facts['host']}:{facts['port']}"
    except (OSError, ValueError, KeyError, TypeError):
        return "it is just starting"

"""Where Reef keeps things. One `Home` a daemon; only the command line reads `REEF_HOME`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Home:
    """The folder `~/.reef`, or wherever `REEF_HOME` moves it."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def client_token(self) -> Path:
        return self.root / "tokens" / "client"

    @property
    def owner_token(self) -> Path:
        return self.root / "tokens" / "owner"

    @property
    def database(self) -> Path:
        return self.root / "experience.db"

    @property
    def versions(self) -> Path:
        """The bare git repository; LFS objects lie in its `lfs/objects`."""
        return self.root / "versions.git"

    @property
    def models(self) -> Path:
        return self.root / "models"

    @property
    def tasks(self) -> Path:
        return self.root / "tasks"

    @property
    def agents(self) -> Path:
        """One folder an installed agent: its own configuration, sessions and harness."""
        return self.root / "agents"

    @property
    def runs(self) -> Path:
        """One folder a run: candidates, job folder, evaluation, log."""
        return self.root / "runs"

    @property
    def loras(self) -> Path:
        """LoRA files checked out of the LFS store for the engine, by sha256."""
        return self.root / "cache" / "loras"

    @property
    def log(self) -> Path:
        return self.root / "logs" / "daemon.log"

    @property
    def lock(self) -> Path:
        """Held with flock while a daemon runs; its text is the JSON that `up`, `down` and `status` read."""
        return self.root / "daemon.lock"

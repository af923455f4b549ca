"""pi and the Node that runs it, pinned, in a folder of Reef's own.

The system's Node, npm prefix and any pi that a person has installed stay as they are; the system's npm is only
used to fetch. Nothing is built: pi's packages are installed without their install scripts.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import EngineError, NotFound, StorageError

PI_PACKAGE = "@earendil-works/pi-coding-agent"
PI_VERSION = "1.6.0"
NODE_VERSION = "22.23.3"  # pi needs 22.19 or newer
_INSTALL_TIMEOUT_S = 900
_VERSION_TIMEOUT_S = 20
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


@dataclass(frozen=True, slots=True)
class Runtime:
    """The folder that holds both packages. Its npm cache is the user's, so that a second install is quick."""

    folder: Path

    @property
    def node_bin(self) -> Path:
        return self.folder / "node_modules" / "node" / "bin"

    @property
    def pi(self) -> Path:
        return self.folder / "node_modules" / ".bin" / "pi"

    @property
    def log(self) -> Path:
        return self.folder / "install.log"

    def version(self) -> str | None:
        """The version of pi that is installed here and starts; None if there is none."""
        if not self.pi.exists() or not (self.node_bin / "node").exists():
            return None
        try:
            answer = subprocess.run(
                [str(self.pi), "--version"],
                env=self.environment(os.environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_VERSION_TIMEOUT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return answer.stdout.strip() or None if answer.returncode == 0 else None

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """`base` with Reef's Node first on the path, and pi's calls to its maker's hosts off."""
        path = f"{self.node_bin}{os.pathsep}{base.get('PATH', os.defpath)}"
        return {**base, "PATH": path, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}

    def install(self, say: Callable[[str], None]) -> None:
        """Fetch what is missing; does nothing where the pinned versions stand.

        Raises:
            NotFound: npm is not there.
            EngineError: npm failed; the message names its log.
            StorageError: the folder cannot be written.
        """
        if self.version() == PI_VERSION:
            return
        npm = shutil.which("npm")
        if npm is None:
            raise NotFound(
                "npm was not found, and pi comes from npm.", "Install Node.js with npm (any version), then run `reef install pi` again."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.log.write_text("", encoding="utf-8")
        except OSError as error:
            raise StorageError(f"Cannot write {self.folder}: {error.strerror}.", "Mend its permissions, then try again.") from error
        say(f"Fetching Node {NODE_VERSION} (about 50 MB to fetch, 125 MB on disk) into {self.folder}")
        self._npm(npm, [f"node@{NODE_VERSION}"])
        say(f"Fetching pi {PI_VERSION} (170 MB on disk)")
        self._npm(npm, ["--ignore-scripts", f"{PI_PACKAGE}@{PI_VERSION}"])
        if (found := self.version()) != PI_VERSION:
            raise EngineError(f"pi was installed, but answers {found!r} instead of its version {PI_VERSION}.", f"Read {self.log}.")

    def _npm(self, npm: str, arguments: list[str]) -> None:
        """On the Node that npm came with: Debian's finds its own parts with no other."""
        command = [npm, "install", "--prefix", str(self.folder), "--save-exact", *_QUIET, *arguments]
        try:
            with self.log.open("a", encoding="utf-8") as log:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            raise EngineError(
                f"npm did not finish within {_INSTALL_TIMEOUT_S // 60} minutes.", f"Read {self.log}, then try again."
            ) from error
        if done.returncode != 0:
            raise EngineError(f"npm could not install {arguments[-1]}.", f"Read {self.log}; is the network there?")

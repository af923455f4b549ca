"""Real coding agents from npm and PyPI, each in a throwaway folder of its own, run without a terminal and without the user's home."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from adapters.pi.runtime import NODE_VERSION

INSTALL_S = 600
RUN_S = 180
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")

MARKS = [
    pytest.mark.e2e,
    pytest.mark.timeout(900),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]
"""For each module's `pytestmark`."""


class Agents:
    """Installs once a test session. `REEF_TEST_AGENTS` names a folder that keeps what is installed for the next session."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def npm(self, package: str, version: str) -> Path:
        """The folder with the package's programs."""
        prefix = self._folder / f"{package.replace('/', '_')}-{version}"
        programs = prefix / "node_modules" / ".bin"
        if not (prefix / "done").exists():
            _install(["npm", "install", "--prefix", str(prefix), *_QUIET, f"{package}@{version}"])
            (prefix / "done").touch()
        return programs

    def pip(self, name: str, *requirements: str) -> Path:
        """The folder with the programs of a virtual environment that holds `requirements`."""
        prefix = self._folder / name
        if not (prefix / "done").exists():
            _install([sys.executable, "-m", "venv", str(prefix)])
            _install([str(prefix / "bin" / "python"), "-m", "pip", "install", "--quiet", *requirements])
            (prefix / "done").touch()
        return prefix / "bin"

    def run(
        self, command: Sequence[str], *, home: Path, cwd: Path, env: Mapping[str, str] | None = None, seconds: float = RUN_S
    ) -> subprocess.CompletedProcess[str]:
        """Run an agent to its end in a plain environment: Node first on the path, an own home, no proxies, no terminal."""
        home.mkdir(parents=True, exist_ok=True)
        plain = {"PATH": self._path(), "HOME": str(home), "LANG": "C.UTF-8", "TERM": "dumb", **(env or {})}
        process = subprocess.Popen(
            list(command),
            cwd=cwd,
            env=plain,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # what it starts ends with it
        )
        try:
            out, err = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            pytest.fail(f"{command[0]} did not end within {seconds:.0f} s:\n{out[-4000:]}\n{err[-4000:]}")
        return subprocess.CompletedProcess(list(command), process.returncode, out, err)

    def _path(self) -> str:
        node = self.npm("node", NODE_VERSION).parent / "node" / "bin"
        return f"{node}{os.pathsep}{os.environ['PATH']}"


def project(folder: Path) -> Path:
    """A small working copy with one file, `notes.txt`, under git as agents like it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.txt").write_text("The colour is teal.\n")
    identity = ["-c", "user.name=Somebody", "-c", "user.email=somebody@example.org"]
    for arguments in (["init", "-q"], ["add", "."], [*identity, "commit", "-q", "-m", "Begin"]):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True, capture_output=True)
    return folder


def _install(command: Sequence[str]) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")

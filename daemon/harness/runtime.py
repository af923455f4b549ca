"""An agent from npm and the Node that runs it, pinned, in a folder of Reef's own.

What the machine has already is used where it is accepted: the agent itself where its version lies in the range, and Node where the agent
runs on it. Neither is ever changed; the system's npm only fetches. Each version lies in a folder of its own that gets its name when it is
whole, so that an interrupted download leaves the one before working.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from daemon.errors import Conflict, EngineError, NotFound, StorageError, Unsupported
from daemon.failpoints import failpoint

NODE_VERSION = "22.23.3"
_INSTALL_TIMEOUT_S = 900
_VERSION_TIMEOUT_S = 20
_QUIET = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
_PATIENCE = ("--fetch-timeout=60000", "--fetch-retries=1", "--fetch-retry-mintimeout=2000")
"""By itself npm waits a quarter of an hour for a network that swallows everything."""
_USERS_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
_VERSION = re.compile(r"(?<![\d.])(\d+)\.(\d+)\.(\d+)\b")

Version = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Package:
    """A program on npm."""

    name: str  # on npm
    command: str  # as it is typed
    version: str  # the one that is fetched, with which Reef is tested
    at_least: Version
    below: Version
    node: Version = (0, 0, 0)  # the oldest Node that it runs on
    scripts: bool = False  # whether it needs npm's install scripts
    natives: str = ""  # its programs for kinds of machines, as a pattern below node_modules: the first that starts is the command

    @property
    def range(self) -> str:
        """For people."""
        return f"{_shown(self.at_least)} or later, below {_shown(self.below)}"

    def accepts(self, version: str) -> bool:
        found = parse_version(version)
        return found is not None and self.at_least <= found < self.below


@dataclass(frozen=True, slots=True)
class Program:
    """An agent that can be started."""

    command: Path
    version: str
    node_bin: Path | None  # goes first on the path; None: the system's Node, or none is needed

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        if self.node_bin is None:
            return dict(base)
        return {**base, "PATH": f"{self.node_bin}{os.pathsep}{base.get('PATH', os.defpath)}"}


@dataclass(frozen=True, slots=True)
class Runtime:
    """`folder` holds one folder a version. Its npm cache is the user's, so that a second install is quick."""

    folder: Path
    package: Package

    @property
    def log(self) -> Path:
        return self.folder / "install.log"

    def own(self) -> Program | None:
        """What was fetched here, where it still starts."""
        prefix = self.folder / self.package.version
        command = prefix / "node_modules" / ".bin" / self.package.command
        if not command.exists():
            return None
        node = prefix / "node_modules" / "node" / "bin"
        program = Program(command, "", node if (node / "node").exists() else None)
        # Where a Node comes from may depend on the user's own folders.
        alone = self.package.node == (0, 0, 0)
        version = _version_alone(command) if alone else _version_of([str(command)], program.environment(os.environ))
        return Program(command, version, program.node_bin) if version else None

    def of_the_machine(self) -> Program | None:
        """What the user has, whatever its version."""
        found = shutil.which(self.package.command)
        if found is None or self.folder in Path(found).resolve().parents:
            return None
        version = _version_of([found], os.environ)
        return Program(Path(found), version, None) if version else None

    def find(self) -> Program | None:
        """What would be used: what was fetched before what the machine has; None where neither is in the range."""
        for look in (self.own, self.of_the_machine):
            if (program := look()) is not None and self.package.accepts(program.version):
                return program
        return None

    def ensure(self, say: Callable[[str], None]) -> Program:
        """`find`, or fetch it.

        Raises:
            NotFound: npm is not there. Unsupported: a version outside the range came. Conflict: one that does not answer is in use.
            EngineError: npm failed; the message names its log. StorageError: the folder cannot be written.
        """
        return self.find() or self._fetch(say)

    def remove_others(self) -> None:
        """Remove other versions that nothing runs any more."""
        if not self.folder.is_dir():
            return
        for other in self.folder.iterdir():
            if other.is_dir() and other.name != self.package.version and not _runs(other):
                shutil.rmtree(other, ignore_errors=True)

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def _fetch(self, say: Callable[[str], None]) -> Program:
        package = self.package
        npm = shutil.which("npm")
        if npm is None:
            message = f"npm was not found, and {package.command} comes from npm."
            raise NotFound(message, "Install Node.js with npm (any version), then run the same again.")
        partial = self.folder / f".{package.version}.{secrets.token_hex(4)}"
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left in self.folder.glob(".*"):
                shutil.rmtree(left)  # of an interrupted download; whoever holds the place is alone here
            partial.mkdir()
            self.log.write_text("", encoding="utf-8")
        except OSError as error:
            raise StorageError(f"Cannot write {self.folder}: {error.strerror}.", "Mend its permissions, then try again.") from error
        try:
            if not _accepted_node(package.node):
                say(f"Fetching Node {NODE_VERSION} (about 50 MB to fetch, 125 MB on disk) into {self.folder}")
                self._npm(npm, partial, [f"node@{NODE_VERSION}"])
                failpoint("install.fetched-one")
            say(f"Fetching {package.command} {package.version}")
            scripts = () if package.scripts else ("--ignore-scripts",)
            self._npm(npm, partial, [*scripts, f"{package.name}@{package.version}"])
            if package.natives:
                self._choose(partial / "node_modules")
            place = self.folder / package.version
            if _runs(place):
                message = f"{package.command} {package.version} runs, but does not answer its version within {_VERSION_TIMEOUT_S} s."
                raise Conflict(message, "Try again, or close it before.")
            shutil.rmtree(place, ignore_errors=True)  # one that does not start
            os.replace(partial, place)
            failpoint("install.fetched")
        except OSError as error:
            raise StorageError(f"Cannot write {self.folder}: {error.strerror}.", "Free disk space, then try again.") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        program = self.own()
        if program is None:
            raise EngineError(f"{package.command} {package.version} was fetched but does not start.", f"Read {self.log}.")
        if not package.accepts(program.version):
            message = f"{package.command} answers {program.version!r} instead of a version that is {package.range}."
            raise Unsupported(message, f"Read {self.log}.")
        return program

    def _choose(self, modules: Path) -> None:
        """Of the programs for kinds of machines keep the first that starts on this one; npm brings those for older processors too."""
        found = sorted(modules.glob(self.package.natives))
        chosen = next((program for program in found if _version_alone(program)), None)
        if chosen is None:
            return
        command = modules / ".bin" / self.package.command
        command.unlink(missing_ok=True)
        command.symlink_to(os.path.relpath(chosen, command.parent))
        for other in found:
            if other != chosen:
                parts = other.relative_to(modules).parts
                shutil.rmtree(modules.joinpath(*parts[: 2 if parts[0].startswith("@") else 1]))

    def _npm(self, npm: str, prefix: Path, arguments: list[str]) -> None:
        """On the Node that npm came with: Debian's finds its own parts with no other."""
        command = [npm, "install", "--prefix", str(prefix), "--save-exact", *_QUIET, *_PATIENCE, *arguments]
        try:
            with self.log.open("a", encoding="utf-8") as log:
                done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=_INSTALL_TIMEOUT_S, check=False)
        except subprocess.TimeoutExpired as error:
            minutes = _INSTALL_TIMEOUT_S // 60
            raise EngineError(f"npm did not finish within {minutes} minutes.", f"Read {self.log}, then try again.") from error
        if done.returncode != 0:
            raise EngineError(f"npm could not install {arguments[-1]}.", f"Read {self.log}; is the network there?")


def parse_version(text: str) -> Version | None:
    """The first `1.2.3` in what a program answers to `--version`."""
    found = _VERSION.search(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def _accepted_node(at_least: Version) -> bool:
    node = shutil.which("node")
    if at_least == (0, 0, 0):
        return True
    found = parse_version(_version_of([node], os.environ)) if node else None
    return found is not None and found >= at_least


def _version_alone(program: Path) -> str:
    """`_version_of` for one that makes folders for itself before it answers: none of them in the user's own."""
    with tempfile.TemporaryDirectory() as empty:
        return _version_of([str(program)], {**os.environ, **dict.fromkeys(_USERS_FOLDERS, empty)})


def _version_of(command: list[str], environment: Mapping[str, str]) -> str:
    """Empty where it does not start or answers no version."""
    try:
        answer = subprocess.run(
            [*command, "--version"],
            env={**environment, "PI_OFFLINE": "1", "DISABLE_AUTOUPDATER": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    found = _VERSION.search(answer.stdout) if answer.returncode == 0 else None
    return found[0] if found else ""


def _runs(folder: Path) -> bool:
    """Whether a process runs something below `folder`."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if any(str(folder) in part for part in process.cmdline()):
                return True
    return False


def _shown(version: Version) -> str:
    parts = list(version)
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return ".".join(map(str, parts))

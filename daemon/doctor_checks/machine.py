"""Python, packages, compiler, home, tokens, port, sandbox."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import platform
import shutil
import socket
import sys
from collections.abc import Iterator

from daemon.config import ServerConfig
from daemon.doctor_checks.finding import Finding, State
from daemon.paths import Home

_AGAIN = "./install.sh"
_SERVES = ("llama-cpp-python", "starlette", "uvicorn", "uvloop", "dulwich", "pydantic", "zstandard")
_TRAINS = ("torch", "transformers", "peft", "safetensors", "gguf")
_RIVALS = ("python-daemon", "adapters")
"""Packages that own the import names `daemon` and `adapters`."""
_LITTLE_BYTES = 2 << 30


def python() -> Iterator[Finding]:
    yield Finding("python", State.OK, f"Python {platform.python_version()} in {sys.prefix}")


def packages() -> Iterator[Finding]:
    rivals = [name for name in _RIVALS if _version(name)]
    if rivals:
        names = " ".join(rivals)
        yield Finding(
            "packages", State.FAIL, f"The package {names} owns a name that Reef imports.", f"{sys.executable} -m pip uninstall {names}"
        )
    missing = [name for name in _SERVES if not _version(name)]
    if missing:
        yield Finding("packages", State.FAIL, f"Not installed: {', '.join(missing)}.", f"{_AGAIN} again")
    untrained = [name for name in _TRAINS if not _version(name)]
    if untrained:
        yield Finding("packages", State.NOTE, f"Weights cannot be trained without {', '.join(untrained)}.", f"{_AGAIN} again")
    if not (missing or untrained or rivals):
        yield Finding("packages", State.OK, ", ".join(f"{name} {_version(name)}" for name in ("llama-cpp-python", "torch", "transformers")))


def compiler() -> Iterator[Finding]:
    found = next((path for name in ("c++", "g++", "clang++") if (path := shutil.which(name))), None)
    if found:
        yield Finding("compiler", State.OK, found)
    else:
        state = State.NOTE if _version("llama-cpp-python") else State.FAIL
        hint = "xcode-select --install" if sys.platform == "darwin" else "sudo apt-get install g++, or your system's C++ compiler"
        yield Finding("compiler", state, "There is no C++ compiler; one is needed to build llama-cpp-python, once.", hint)


def home_folder(home: Home) -> Iterator[Finding]:
    if not home.root.exists():
        parent = next(folder for folder in home.root.parents if folder.exists())
        if not os.access(parent, os.W_OK):
            yield Finding("home", State.FAIL, f"{home.root} cannot be made in {parent}.", "Set REEF_HOME to a folder of yours.")
        else:
            yield Finding("home", State.NOTE, f"{home.root} is not there yet.", "reef init")
        return
    if not os.access(home.root, os.W_OK | os.X_OK):
        yield Finding("home", State.FAIL, f"{home.root} cannot be written.", f"Mend it: chmod u+rwx {home.root}, or set REEF_HOME.")
        return
    free = shutil.disk_usage(home.root).free
    if free < _LITTLE_BYTES:
        yield Finding("home", State.NOTE, f"Only {free / 1e9:.1f} GB are free below {home.root}.", "Free some space.")
    else:
        yield Finding("home", State.OK, f"{home.root}, {free / 1e9:.0f} GB free")


def tokens(home: Home) -> Iterator[Finding]:
    for path in (home.client_token, home.owner_token):
        if not path.exists():
            yield Finding("tokens", State.NOTE, f"There is no {path.name} token yet.", "reef init")
        elif not os.access(path, os.R_OK):
            yield Finding("tokens", State.FAIL, f"{path} cannot be read.", f"chmod 600 {path}, as the user who owns it")
        elif path.stat().st_mode & 0o077:
            yield Finding("tokens", State.FAIL, f"{path} can be read by other users.", f"chmod 600 {path}")
        else:
            yield Finding("tokens", State.OK, f"{path}")


def port(home: Home, server: ServerConfig) -> Iterator[Finding]:
    running = _running(home)
    if running:
        yield Finding("port", State.OK, f"The daemon runs: {running}")
        return
    family = socket.AF_INET6 if ":" in server.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((server.host, server.port))
        except OSError as error:
            hint = "Set server.port to another, or start once with: reef up --port 8901"
            yield Finding("port", State.FAIL, f"{server.host}:{server.port} cannot be used: {error.strerror}.", hint)
            return
    yield Finding("port", State.OK, f"{server.host}:{server.port} is free")


def sandbox() -> Iterator[Finding]:
    if shutil.which("bwrap"):
        yield Finding("sandbox", State.OK, "Commands of tasks run under bubblewrap.")
    else:
        hint = "sudo apt-get install bubblewrap" if sys.platform == "linux" else ""
        yield Finding("sandbox", State.NOTE, "There is no bubblewrap; commands of tasks run with limits only.", hint)
    if not shutil.which("git-lfs"):
        yield Finding("git-lfs", State.NOTE, "There is no git-lfs; only you need it, to clone the releases with their weights.")


def _running(home: Home) -> str:
    try:
        facts = json.loads(home.lock.read_text(encoding="utf-8"))
        os.kill(int(facts["pid"]), 0)
        return f"process {facts['pid']} at {facts['host']}:{facts['port']}"
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _version(distribution: str) -> str:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(distribution)
    return ""

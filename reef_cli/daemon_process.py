"""Starts `python -P -m daemon …`: what must work with the daemon down, and the daemon itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from daemon.errors import NotFound, ReefError
from daemon.paths import Home


def command(verb: str, home: Home, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a daemon verb. -P: the folder that a user stands in must never shadow our modules."""
    return [sys.executable, "-P", "-m", "daemon", verb, "--home", str(home.root), *arguments]


def become(arguments: Sequence[str]) -> None:
    """Turn this process into that one: signals, exit code and terminal are then its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(arguments[0], list(arguments))
    except OSError as error:
        raise ReefError(f"Cannot start {arguments[0]}: {error.strerror}.", "Run ./install.sh again.") from error


def serve_arguments(config: Path | None, port: int | None) -> list[str]:
    """Raises `NotFound` for a settings file that is not there."""
    arguments: list[str] = []
    if config is not None:
        if not config.is_file():
            raise NotFound(f"There is no file {config}.", "Name a settings file that exists, such as serve.yaml.")
        arguments += ["-c", str(config.absolute())]
    if port is not None:
        arguments += ["--port", str(port)]
    return arguments

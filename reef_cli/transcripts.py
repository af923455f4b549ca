"""Finds the reader of an agent's own sessions: `transcripts.py` beside its adapter, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

from daemon.errors import NotFound
from daemon.harness.adapter import adapter_package
from daemon.importing.transcript import TranscriptReader
from daemon.paths import Home


def find_reader(agent: str) -> TranscriptReader | None:
    """None: no agent of that name keeps sessions that can be read."""
    package = adapter_package(agent)
    if package is None:
        return None
    try:
        module = importlib.import_module(f"{package}.transcripts")
    except ModuleNotFoundError:
        return None
    reader = vars(module).get("READER")
    return reader if isinstance(reader, TranscriptReader) else None


def usual_places(reader: TranscriptReader, home: Home) -> list[Path]:
    """Raises `NotFound`: the agent has kept nothing on this machine."""
    found = reader.places(os.environ, Path.home(), home.agents / reader.name)
    if not found:
        looked = Path(os.environ.get(reader.variable) or f"~/{reader.usual}") / reader.below
        raise NotFound(f"There are no sessions of {reader.name} in {looked}.", f"Name their place: reef import {reader.name} PATH")
    return found

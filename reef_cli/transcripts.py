"""Finds the reader of an agent's own sessions: `adapters/<agent>/transcripts.py`, imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import pkgutil
from pathlib import Path

import adapters
from daemon.errors import NotFound
from daemon.importing.transcript import TranscriptReader
from daemon.paths import Home


def find_reader(agent: str) -> TranscriptReader | None:
    """None: no agent of that name keeps sessions that can be read."""
    if agent not in {module.name for module in pkgutil.iter_modules(adapters.__path__)}:
        return None
    try:
        module = importlib.import_module(f"adapters.{agent}.transcripts")
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

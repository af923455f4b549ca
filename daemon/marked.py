"""Processes found by a mark in the environment that they began with: what a child has started, however it got away from it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import psutil

RUN_MARK = "RUN_OF_REEF"
"""Names the run that started a process, as `run_mark` does; passed on to all that it starts."""
_GONE_S = 2.0


def marked(name: str, value: str) -> list[psutil.Process]:
    """Processes of this user that were started with `name=value` in their environment."""
    return [process for process in psutil.process_iter() if _carries(process, name, value)]


def kill(processes: Iterable[psutil.Process]) -> None:
    """End them, stopped ones too, and wait until they are gone."""
    found = list(processes)
    for process in found:
        with contextlib.suppress(psutil.Error):
            process.kill()  # psutil makes sure that the id was not given to another process since
    psutil.wait_procs(found, timeout=_GONE_S)


def run_mark(folder: Path) -> str:
    """What marks the processes of the run whose folder this is: a run of the same id in another home, restored there, is another."""
    return str(folder.resolve())


def kill_run(folder: Path) -> None:
    """End all that the run of this folder has started and left behind."""
    kill(marked(RUN_MARK, run_mark(folder)))


def _carries(process: psutil.Process, name: str, value: str) -> bool:
    try:
        return process.environ().get(name) == value
    except (psutil.Error, OSError):  # another user's, or gone
        return False

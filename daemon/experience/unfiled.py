"""Who writes which database in this process: what has a receipt may lie in the journal still, and a reader wants to see it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

_writers: dict[Path, Callable[[], None]] = {}


def writes(path: Path, settle: Callable[[], None]) -> None:
    """From now on `settle` brings what has a receipt into the tables of the database at `path`."""
    _writers[path.absolute()] = settle


def written(path: Path) -> None:
    """Nothing comes any more."""
    _writers.pop(path.absolute(), None)


def settle(path: Path) -> None:
    """Let all that has a receipt now be in the tables. Blocks; costs nothing where it is, and where another process writes.

    Where the disk does not allow it, the tables are as they were: what can be read stays readable.
    """
    for_path = _writers.get(path) if path.is_absolute() else _writers.get(path.absolute())
    if for_path is not None:
        for_path()

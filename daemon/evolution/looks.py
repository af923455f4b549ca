"""How often a held-out set has been asked: what the gate's level depends on.

A look is written down, durably, before the first held-out task is played, so that neither a crash nor a dry run nor a cancelled run
looks for free. Two sets count as the same if they share at least half of today's tasks: a set is refreshed by new tasks, not by one.
Looks whose set is too small to promote anything even if every task were won are not counted.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from daemon.errors import StorageError
from daemon.evolution.tasks import Task
from daemon.files import fsync_folder


class _Look(BaseModel):
    model_config = ConfigDict(extra="ignore")

    run: str
    tasks: frozenset[str]


class Looks:
    """The file that holds one scenario's looks, one JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def count(self, tasks: Sequence[Task]) -> int:
        """How many earlier looks shared at least half of `tasks`."""
        today = {fingerprint(task) for task in tasks}
        return sum(2 * len(today & look.tasks) >= len(today) > 0 for look in self._read())

    def add(self, run_id: str, tasks: Sequence[Task]) -> None:
        """Write one look down; returns once it is on disk.

        Raises:
            StorageError: it cannot be written; do not look.
        """
        line = json.dumps({"run": run_id, "tasks": sorted(fingerprint(task) for task in tasks)}) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a+b") as stream:
                end = stream.seek(0, os.SEEK_END)
                if end and os.pread(stream.fileno(), 1, end - 1) != b"\n":  # a crash cut the last line off: ours must not go with it
                    stream.write(b"\n")
                stream.write(line.encode())
                stream.flush()
                os.fsync(stream.fileno())
            fsync_folder(self._path.parent)
        except OSError as error:
            raise StorageError(f"Cannot write {self._path}: {error.strerror}.", "Free disk space or mend the permissions.") from error

    def _read(self) -> list[_Look]:
        if not self._path.exists():
            return []
        looks = []
        for line in self._path.read_bytes().splitlines():
            try:
                looks.append(_Look.model_validate_json(line))
            except ValidationError:
                continue  # a line cut off by a crash: its run never saw the first task
        return looks


def fingerprint(task: Task) -> str:
    """Changes when the prompt or the checker does: then it is another task."""
    return hashlib.sha256(task.model_dump_json(exclude={"split"}).encode()).hexdigest()[:16]

"""What an installation has decided to do, written down before the first file moves, so that whoever comes next can finish it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DataError
from daemon.files import write_atomic
from daemon.harness_tree import check_path


@dataclass(frozen=True, slots=True)
class Journal:
    """Paths are relative to the agent's folder."""

    put: dict[str, tuple[int, str, str]]
    """Path → number of the staged file, its sha256, and that of what was there (empty: nothing)."""
    remove: dict[str, str]
    """Path → sha256 of what was there."""
    manifest: str


def read_journal(path: Path) -> Journal | None:
    """None: nothing was interrupted. Raises DataError for what is no journal, or names a path outside."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8"))
        put = {str(name): (int(index), str(digest), str(before)) for name, (index, digest, before) in plan["put"].items()}
        remove = {str(name): str(digest) for name, digest in plan["remove"].items()}
        for name in (*put, *remove):
            check_path(name)
        return Journal(put, remove, str(plan["manifest"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, DataError) as error:
        raise DataError(f"{path} cannot be read: {error}.", "Move it away, then install again.") from error


def write_journal(path: Path, journal: Journal) -> None:
    plan = {"put": journal.put, "remove": journal.remove, "manifest": journal.manifest}
    write_atomic(path, json.dumps(plan), mode=0o600)

"""`fsck`: everything stored, checked with the daemon up or down. It changes nothing, unless it is asked to repair."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

from daemon.errors import BadRequest, NotFound
from daemon.experience.check import check, check_search, logged_releases
from daemon.experience.reader import Reader
from daemon.experience.search.file import index_path
from daemon.instance import Instance
from daemon.mending import copies_from, mend
from daemon.paths import Home
from daemon.versions.fsck import LogFacts, Problem, Severity, fsck
from daemon.versions.repair import Mended
from daemon.versions.repository import Repository

_EVERY_S = 0.2


def run_fsck(home: Home, *, json_output: bool, repair: bool = False, source: Path | None = None) -> int:
    """Print what does not hold; 1 if anything is an error.

    Args:
        repair: mend the releases first; the daemon must be down.
        source: a backup or a clone to take what is missing from.

    Raises:
        NotFound: there is nothing to check. Conflict: a daemon runs. NewerManifest: a newer Reef wrote a release, so nothing is repaired.
    """
    if not home.versions.is_dir() and not home.database.is_file():
        raise NotFound(f"There is nothing of Reef's in {home.root}.", "Set REEF_HOME, or begin with: reef init.")
    if source is not None and not repair:
        raise BadRequest("A source is for repairing.", "Add --repair.")
    with _Line() as line:
        mended = _repaired(home, source, line) if repair and home.versions.is_dir() else []
        problems = [*_releases(home, line.releases), *_experience(home, line)]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if json_output:
        rows = [{"severity": one.severity.value, "where": one.where, "message": one.message, "hint": one.hint} for one in problems]
        repaired = [{"where": one.where, "message": one.message} for one in mended]
        print(json.dumps({"ok": not errors, "problems": rows, "repaired": repaired}, indent=2))
    else:
        for done in mended:
            print(f"repaired: {done.where}: {done.message}")
        for problem in problems:
            print(f"{problem.severity.value}: {problem.where}: {problem.message} {problem.hint}".rstrip())
        print(f"{len(errors)} errors." if errors else "Everything holds.")
    return 1 if errors else 0


class _Line(contextlib.AbstractContextManager["_Line"]):
    """One line on stderr that moves while something takes long; nothing where no terminal looks on."""

    def __init__(self) -> None:
        self._moving = sys.stderr.isatty()
        self._told_at = time.monotonic()

    def __exit__(self, *about: object) -> None:
        self._write("")

    def releases(self, count: int) -> None:
        self.tell(f"Checking the releases: {count}")

    def reading(self, what: str, done: int, _: int) -> None:
        self.tell(f"{what} {done / 1e6:.0f} MB")

    def tell(self, text: str) -> None:
        if time.monotonic() - self._told_at >= _EVERY_S:
            self._told_at = time.monotonic()
            self._write(text)

    def _write(self, text: str) -> None:
        if self._moving:
            sys.stderr.write(f"\r\x1b[K{text}")
            sys.stderr.flush()


def _repaired(home: Home, source: Path | None, line: _Line) -> list[Mended]:
    with Instance(home), contextlib.ExitStack() as stack:
        more = [stack.enter_context(copies_from(home, source, line.reading))] if source is not None else []
        repository = stack.enter_context(contextlib.closing(Repository(home.versions, only_look=True)))
        return mend(home, repository, more)


def _releases(home: Home, tell: Callable[[int], None]) -> list[Problem]:
    facts = _facts(home)
    if not home.versions.is_dir():
        logged = sum(len(set(ids)) for ids in facts.logged.values()) if facts is not None else 0
        message = f"The repository of releases is missing; the operation log names {logged}."
        return [Problem(Severity.ERROR, str(home.versions), message, "Restore it from a backup.")] if logged else []
    repository = Repository(home.versions, only_look=True)
    try:
        return fsck(repository, facts, tell)
    finally:
        repository.close()


def _facts(home: Home) -> LogFacts | None:
    if not home.database.is_file():
        return None
    reader = Reader(home.database)
    try:
        return LogFacts(logged_releases(reader), home.database)
    finally:
        reader.close()


def _experience(home: Home, line: _Line) -> list[Problem]:
    line.tell("Checking the experience")
    hint = "Restore a backup of the database."
    problems = [Problem(Severity.ERROR, str(home.database), sentence, hint) for sentence in check(home.database)]
    index = index_path(home.database)
    hint = f"It is made anew from the database: stop the daemon, delete {index.name} (and -wal, -shm), start it again."
    return problems + [Problem(Severity.ERROR, str(index), sentence, hint) for sentence in check_search(home.database)]

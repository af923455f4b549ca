"""`fsck`: everything stored, checked with the daemon up or down. It changes nothing."""

from __future__ import annotations

import json

from daemon.errors import NotFound
from daemon.experience.check import check, check_search, logged_releases
from daemon.experience.reader import Reader
from daemon.experience.search.file import index_path
from daemon.paths import Home
from daemon.versions.fsck import LogFacts, Problem, Severity, fsck
from daemon.versions.repository import Repository


def run_fsck(home: Home, *, json_output: bool) -> int:
    """Print what does not hold; 1 if anything is an error.

    Raises:
        NotFound: there is nothing to check.
    """
    if not home.versions.is_dir() and not home.database.is_file():
        raise NotFound(f"There is nothing of Reef's in {home.root}.", "Set REEF_HOME, or begin with: reef init.")
    problems = [*_releases(home), *_experience(home)]
    errors = [problem for problem in problems if problem.severity is Severity.ERROR]
    if json_output:
        rows = [{"severity": one.severity.value, "where": one.where, "message": one.message, "hint": one.hint} for one in problems]
        print(json.dumps({"ok": not errors, "problems": rows}, indent=2))
    else:
        for problem in problems:
            print(f"{problem.severity.value}: {problem.where}: {problem.message} {problem.hint}".rstrip())
        print(f"{len(errors)} errors." if errors else "Everything holds.")
    return 1 if errors else 0


def _releases(home: Home) -> list[Problem]:
    facts = _facts(home)
    if not home.versions.is_dir():
        logged = sum(len(set(ids)) for ids in facts.logged.values()) if facts is not None else 0
        message = f"The repository of releases is missing; the operation log names {logged}."
        return [Problem(Severity.ERROR, str(home.versions), message, "Restore it from a backup.")] if logged else []
    repository = Repository(home.versions, only_look=True)
    try:
        return fsck(repository, facts)
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


def _experience(home: Home) -> list[Problem]:
    hint = "Restore a backup of the database."
    problems = [Problem(Severity.ERROR, str(home.database), sentence, hint) for sentence in check(home.database)]
    index = index_path(home.database)
    hint = f"It is made anew from the database: stop the daemon, delete {index.name} (and -wal, -shm), start it again."
    return problems + [Problem(Severity.ERROR, str(index), sentence, hint) for sentence in check_search(home.database)]

"""Check a repository of releases without a daemon: hashes, refs, pointers, weights, chains, and what SQLite says of them.

Found and named, never mended here: that is `repair`. An interrupted publish leaves objects that nothing refers to: notes, not errors.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from dulwich.objects import ObjectID

from daemon.errors import ReefError
from daemon.files import sha256_file
from daemon.versions.git_objects import UNREADABLE
from daemon.versions.manifest import ArtifactKind
from daemon.versions.refs import NOWHERE, OUTSIDE, SCENARIOS, check_scenario, is_release_id, mirror_ref
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository
from daemon.versions.tombstones import hash_of

_RESTORE = "With the daemon down: reef fsck --repair, and with --from BACKUP or a clone where no copy is found here."


class Severity(StrEnum):
    ERROR = "error"
    NOTE = "note"  # harmless


@dataclass(frozen=True, slots=True)
class Problem:
    severity: Severity
    where: str  # a release, an object, a file
    message: str  # a sentence
    hint: str = ""


@dataclass(frozen=True, slots=True)
class LogFacts:
    """What SQLite holds: per scenario the release ids in its operation log, oldest first, and which file it is."""

    logged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    database: Path | None = None


def fsck(repository: Repository, facts: LogFacts | None = None, tell: Callable[[int], None] | None = None) -> list[Problem]:
    """All problems, errors first; no error means that every release can be served as it was published.

    Args:
        tell: is told, after each release, how many are checked.
    """
    checker = _Checker(repository, tell)
    found = list(checker.refs())
    found += checker.outside()
    found += checker.leftovers()
    if facts is not None:
        found += _database(facts.database) if facts.database else []
        found += checker.log(facts.logged)
    return sorted(found, key=lambda problem: problem.severity)


class _Checker:
    def __init__(self, repository: Repository, tell: Callable[[int], None] | None) -> None:
        self._repository = repository
        self._tell = tell
        self._checked = 0
        self._tombstones = repository.tombstones.objects
        self._erased = repository.tombstones.weights
        self._collected = repository.tombstones.collected
        self._objects: dict[bytes, str] = {}  # id → "" or what is wrong, each read once
        self._weights: dict[str, str] = {}
        self._used: set[str] = set()
        self._chains: dict[str, list[str]] = {}
        self._cut: set[str] = set()  # scenarios whose chain cannot be followed to its beginning
        self._commits: dict[str, list[str]] = {}  # of the chains, newest first

    def refs(self) -> Iterator[Problem]:
        """Every ref, and through it every release."""
        heads: list[tuple[str, str]] = []
        candidates: list[tuple[str, str, str, ReleaseState]] = []
        for name, commit_id in sorted(self._repository.refs.below(SCENARIOS).items()):
            parts = name[len(SCENARIOS) :].split("/")
            try:
                check_scenario(parts[0])
            except ReefError as error:
                yield Problem(Severity.ERROR, name, error.message, "Remove the ref with `git update-ref -d`.")
                continue
            if parts[1:] == ["head"]:
                heads.append((parts[0], commit_id))
            elif len(parts) == 3 and parts[1] in ("held", "rejected") and is_release_id(parts[2]):
                candidates.append((name, parts[0], commit_id, ReleaseState(parts[1])))
            elif len(parts) == 3 and parts[1] == "pins" and is_release_id(parts[2]):
                candidates.append((name, parts[0], commit_id, ReleaseState.PUBLISHED))
            else:
                yield Problem(Severity.ERROR, name, f"{name} is no ref of Reef's.", f"Remove it: git update-ref -d {name}")
        for scenario, commit_id in heads:
            yield from self._chain(scenario, commit_id)
        for name, scenario, commit_id, state in candidates:
            release, problems = self._release(f"{scenario} {name.rsplit('/', 1)[1]}", commit_id, state)
            yield from problems
            if release is not None and release.id != name.rsplit("/", 1)[1]:
                yield Problem(Severity.ERROR, name, f"The ref {name} points to {release.id}.", "Set it with `git update-ref`.")

    def outside(self) -> Iterator[Problem]:
        """What somebody pushed into the branches that show what serves, and what was kept of such pushes."""
        for name, commit_id in sorted(self._repository.refs.everything().items()):
            if name.startswith(OUTSIDE):
                hint = f"Look: git -C {self._repository.path} show {commit_id[:12]}. No longer wanted: git update-ref -d {name}"
                yield Problem(Severity.NOTE, name, "A commit that somebody pushed is kept; it never served.", hint)
        for scenario, commits in self._commits.items():
            name = mirror_ref(scenario)
            shown = self._repository.refs.get(name)
            if shown is None or shown == NOWHERE or shown in commits[1:]:
                hint = "The daemon's next start puts it right."
                yield Problem(Severity.NOTE, name, f"The branch {scenario} does not show what serves, for a clone to see.", hint)
            elif commits and shown != commits[0]:
                message = f"The branch {scenario} was pushed into from outside: {shown[:12]} is no release. What serves is not concerned."
                hint = f"The next start puts the branch back and keeps the commit below {OUTSIDE}."
                yield Problem(Severity.NOTE, name, message, hint)

    def leftovers(self) -> list[Problem]:
        """Weights that no release refers to, and damaged names in the store."""
        found: list[Problem] = []
        for sha256, path in self._repository.weights.objects():
            if sha256 in self._used:
                continue
            size = path.stat().st_size
            message = f"The weights {sha256} ({size / 1e6:.1f} MB) belong to no release."
            found.append(Problem(Severity.NOTE, str(path), message, "Left by an interrupted publish; they do no harm."))
        for pattern in ("refs/**/*.lock", "objects/??/tmp_obj_*", "lfs/tmp/*"):
            for path in sorted(self._repository.path.glob(pattern)):
                found.append(Problem(Severity.NOTE, str(path), f"{path.name} is left from a writer that was killed.", "It does no harm."))
        return found

    def log(self, logged: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
        """The operation log against the chains. What the log lacks is added at the daemon's start; what it has too much is wrong."""
        for scenario, chain in self._chains.items():
            noted = set(logged.get(scenario, ()))
            for release_id in chain:
                if release_id not in noted:
                    message = f"The operation log lacks {release_id}."
                    yield Problem(Severity.NOTE, f"{scenario} {release_id}", message, "The daemon adds it at its next start.")
        for scenario, ids in logged.items():
            known = set(self._chains.get(scenario, ()))
            for release_id in dict.fromkeys(ids if scenario not in self._cut else ()):
                if release_id not in known and not self._is_candidate(scenario, release_id):
                    message = f"The operation log has {release_id}, which no ref reaches."
                    yield Problem(Severity.ERROR, f"{scenario} {release_id}", message, _RESTORE)

    def _is_candidate(self, scenario: str, release_id: str) -> bool:
        try:
            self._repository.release(scenario, release_id)
        except ReefError:
            return False
        return True

    def _chain(self, scenario: str, commit_id: str) -> Iterator[Problem]:
        ids: list[str] = []
        following: Release | None = None
        at: str | None = commit_id
        while at:
            named = following.manifest.parent_release_id if following else ("head" if at == commit_id else at[:12])
            label = f"{scenario} {named}"
            release, problems = self._release(label, at, ReleaseState.PUBLISHED)
            yield from problems
            if release is None:
                self._cut.add(scenario)
                following, at = None, self._parent(at)  # what is below can be checked all the same
                continue
            where = f"{scenario} {release.id}"
            if release.manifest.scenario != scenario:
                yield Problem(Severity.ERROR, where, f"{release.id} belongs to the scenario {release.manifest.scenario}.", "")
            if following is not None and following.manifest.parent_release_id != release.id:
                named = following.manifest.parent_release_id
                message = f"{following.id} names {named} as its parent, but follows {release.id}."
                yield Problem(Severity.ERROR, f"{scenario} {following.id}", message, _RESTORE)
            if release.id in ids:
                yield Problem(Severity.ERROR, where, f"{release.id} is in the chain twice.", _RESTORE)
            ids.append(release.id)
            self._commits.setdefault(scenario, []).append(at)
            for other in release.parents[1:]:
                yield from self._release(f"{scenario} (held, promoted as {release.id})", other, ReleaseState.PROMOTED)[1]
            if bool(release.parents) != (release.manifest.parent_release_id is not None):
                yield Problem(Severity.ERROR, where, f"{release.id} and its manifest disagree about a parent.", _RESTORE)
            following, at = release, (release.parents[0] if release.parents else None)
        self._chains[scenario] = ids

    def _parent(self, commit_id: str) -> str | None:
        try:
            return next((parent.decode() for parent in self._repository.reader.commit(commit_id).parents), None)
        except ReefError:
            return None

    def _release(self, where: str, commit_id: str, state: ReleaseState) -> tuple[Release | None, list[Problem]]:
        """Hash every object of the release, then compare manifest, tree and weights."""
        found: list[Problem] = []
        self._checked += 1
        if self._tell is not None:
            self._tell(self._checked)
        if commit_id == NOWHERE:
            return None, [Problem(Severity.ERROR, where, "The ref holds no id: it points nowhere.", _RESTORE)]
        reader = self._repository.reader
        try:
            damaged = self._object(commit_id.encode())
            if damaged:
                return None, [Problem(Severity.ERROR, where, f"The commit {commit_id} {damaged}.", _RESTORE)]
            for object_id in sorted(reader.reachable(commit_id)):
                damaged = self._object(object_id)
                if damaged:
                    message = f"The git object {object_id.decode()} {damaged}."
                    found.append(Problem(Severity.ERROR, where, message, _RESTORE))
            if found:
                return None, found
            release = reader.release(commit_id, state)
            pointers = reader.pointers(commit_id)
        except ReefError as error:
            return None, [*found, Problem(Severity.ERROR, where, error.message, error.hint)]
        where = f"{release.manifest.scenario} {release.id}"
        harness = release.manifest.artifact(ArtifactKind.HARNESS)
        buried = any(object_id.decode() in self._tombstones for object_id in reader.reachable(commit_id))
        if not buried and (harness.content_id if harness else "") != (release.tree.content_id if release.tree.files else ""):
            found.append(Problem(Severity.ERROR, where, "The harness is not the one that its manifest names.", _RESTORE))
        lora = release.manifest.artifact(ArtifactKind.LORA)
        if state is not ReleaseState.REJECTED and {name: None for name in pointers} != {
            one.name: None for one in (lora.files if lora else ())
        }:
            found.append(Problem(Severity.ERROR, where, "The files below lora/ are not those of its manifest.", _RESTORE))
        for stored in release.lora.files if release.lora else ():
            self._used.add(stored.sha256)
            pointer = pointers.get(stored.name)
            if pointer is None or (pointer.oid, pointer.size) != (stored.sha256, stored.size_bytes):
                found.append(Problem(Severity.ERROR, where, f"lora/{stored.name} is no pointer to its weights.", _RESTORE))
            wrong = self._stored(stored.sha256, stored.size_bytes)
            if wrong and stored.sha256 in self._erased:
                message = f"The weights {stored.name} were erased with a session that they were trained on."
                found.append(Problem(Severity.NOTE, where, message, "The release cannot serve again."))
            elif wrong and stored.sha256 in self._collected and not self._repository.weights.path_of(stored.sha256).exists():
                message = f"The weights {stored.name} were collected to make room."
                found.append(Problem(Severity.NOTE, where, message, "The release cannot serve again."))
            elif wrong:
                message = f"The weights {stored.name} (sha256 {stored.sha256}) {wrong}."
                hint = f"Put a copy back at {self._repository.weights.path_of(stored.sha256)}, or: reef fsck --repair --from BACKUP"
                found.append(Problem(Severity.ERROR, where, message, hint))
        return release, found

    def _object(self, object_id: bytes) -> str:
        if object_id not in self._objects:
            self._objects[object_id] = self._hash(object_id)
        return self._objects[object_id]

    def _hash(self, object_id: bytes) -> str:
        kinds = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}
        try:
            kind, data = self._repository.reader.raw(ObjectID(object_id))
        except KeyError:
            return "is missing"
        except UNREADABLE:
            return "is damaged"
        found = hash_of(kinds.get(kind, b"?"), data)
        known = self._tombstones.get(object_id.decode())
        return "" if found in (object_id.decode(), known) else "has another hash than its name"

    def _stored(self, sha256: str, size_bytes: int) -> str:
        if sha256 not in self._weights:
            path = self._repository.weights.path_of(sha256)
            if not path.is_file():
                wrong = "are missing"
            elif path.stat().st_size != size_bytes:
                wrong = f"have {path.stat().st_size} bytes instead of {size_bytes}"
            else:
                wrong = "" if sha256_file(path) == sha256 else "were altered"
            self._weights[sha256] = wrong
        return self._weights[sha256]


def _database(path: Path) -> list[Problem]:
    """SQLite's own integrity check."""
    if not path.exists():
        return []
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            rows = [str(row[0]) for row in connection.execute("PRAGMA integrity_check(20)")]
            rows += [f"a row of {row[0]} refers to a missing one in {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
        finally:
            connection.close()
    except sqlite3.Error as error:
        rows = [str(error)]
    hint = "Restore it from the backup beside it."
    return [Problem(Severity.ERROR, str(path), f"The database is damaged: {row}.", hint) for row in rows if row != "ok"]

"""What was deleted, truncated or altered is found and named."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from daemon.errors import DataError
from daemon.versions.fsck import LogFacts, Severity, fsck
from daemon.versions.manifest import read_manifest
from daemon.versions.release import Release
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


@pytest.fixture
def published(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "versions.git")
    repository.publish(draft(tree(rules="- a")), None)
    repository.publish(draft(tree(rules="- b"), lora_folder(tmp_path / "job")), "r1")
    repository.reject(repository.prepare(draft(tree(rules="- c"), lora_folder(tmp_path / "lost", "lost"))))
    return repository


def errors(repository: Repository, facts: LogFacts | None = None) -> list[str]:
    fresh = Repository(repository.path)
    return [f"{problem.where}: {problem.message}" for problem in fsck(fresh, facts) if problem.severity is Severity.ERROR]


def weights_of(repository: Repository) -> Path:
    return repository.weights.path_of(str(head(repository).manifest.lora_id))


def head(repository: Repository) -> Release:
    found = repository.head("default")
    assert found is not None
    return found


def test_a_sound_repository_is_clean(published: Repository) -> None:
    assert fsck(published) == []


def _truncate(repository: Repository) -> None:
    path = weights_of(repository)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-1])


def _alter(repository: Repository) -> None:
    path = weights_of(repository)
    path.chmod(0o644)
    path.write_bytes(b"X" + path.read_bytes()[1:])


def _delete(repository: Repository) -> None:
    weights_of(repository).unlink()


def _object(repository: Repository, object_id: str) -> Path:
    return repository.path / "objects" / object_id[:2] / object_id[2:]


def _damage_commit(repository: Repository) -> None:
    path = _object(repository, head(repository).commit_id)
    path.chmod(0o644)
    path.write_bytes(b"nonsense")


def _swap_blob(repository: Repository) -> None:
    """The text of one rules file under the name of another: every parser is content, only the hash is not."""
    blobs = []
    for release in repository.chain("default"):
        tree_id = repository.reader.commit(release.commit_id).tree
        harness = repository.reader.tree(tree_id)[b"harness"][1]
        blobs.append(_object(repository, repository.reader.tree(harness)[b"AGENTS.md"][1].decode()))
    blobs[0].chmod(0o644)
    blobs[0].write_bytes(blobs[1].read_bytes())


def _remove_parent(repository: Repository) -> None:
    _object(repository, repository.chain("default")[1].commit_id).unlink()


def _ref_to_nowhere(repository: Repository) -> None:
    (repository.path / "refs/reef/scenarios/default/head").write_text("0" * 39 + "1\n")


def _foreign_ref(repository: Repository) -> None:
    (repository.path / "refs/reef/scenarios/default/other").write_text(head(repository).commit_id + "\n")


def _wrong_name(repository: Repository) -> None:
    folder = repository.path / "refs/reef/scenarios/default/held"
    folder.mkdir()
    (folder / "r9").write_text(head(repository).commit_id + "\n")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_truncate, "bytes instead of"),
        (_alter, "were altered"),
        (_delete, "are missing"),
        (_damage_commit, "is damaged"),
        (_swap_blob, "has another hash than its name"),
        (_remove_parent, "is missing"),
        (_ref_to_nowhere, "is missing"),
        (_foreign_ref, "is no ref of Reef's"),
        (_wrong_name, "points to r2"),
    ],
)
def test_damage_is_named(published: Repository, damage: Callable[[Repository], None], message: str) -> None:
    damage(published)
    found = errors(published)
    assert len(found) >= 1 and any(message in one for one in found), found


def test_orphans_are_notes(published: Repository, tmp_path: Path) -> None:
    published.prepare(draft(tree(rules="- d"), lora_folder(tmp_path / "orphan", "orphan")))
    assert errors(published) == []
    assert sum("belong to no release" in problem.message for problem in fsck(published)) == 2  # the configuration is that of r2


def test_the_operation_log_is_compared(published: Repository) -> None:
    assert errors(published, LogFacts({"default": ("r1", "r2", "r3")})) == []
    assert errors(published, LogFacts({"default": ("r1",)})) == []  # added at the next start
    found = errors(published, LogFacts({"default": ("r1", "r2", "r8")}))
    assert found == ["default r8: The operation log has r8, which no ref reaches."]


def test_a_damaged_database_is_named(published: Repository, tmp_path: Path) -> None:
    path = tmp_path / "experience.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table t (a)")
        connection.executemany("insert into t values (?)", [("x" * 500,)] * 100)
    connection.close()
    assert errors(published, LogFacts(database=path)) == []
    data = bytearray(path.read_bytes())
    data[4096:12288] = b"\xff" * 8192
    path.write_bytes(data)
    assert any("The database is damaged" in one for one in errors(published, LogFacts(database=path)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[]", "no JSON object|not a JSON object"),
        (b"{", "not a JSON object"),
        (b'{"schema_version": 2}', "newer Reef"),
        (b"{}", "damaged"),
    ],
)
def test_a_manifest_that_is_none_is_refused(text: bytes, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_manifest(text, "r1")

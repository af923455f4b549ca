"""A disk that refuses in the middle of a release: the old one stays the head, nothing is half written, the space is given back."""

from __future__ import annotations

import contextlib
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from daemon.errors import StorageError
from daemon.files import write_atomic
from daemon.versions import collect
from daemon.versions.fsck import Problem, fsck
from daemon.versions.operations import promote
from daemon.versions.release import Draft
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


@contextlib.contextmanager
def no_file_beyond(size_bytes: int) -> Iterator[None]:
    """Every write past so many bytes of a file fails, in the middle of the file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    repository = Repository(tmp_path / "versions.git")
    repository.publish(draft(tree(rules="- a")), None)
    return repository


def disk(folder: Path) -> set[str]:
    """Names and sizes of everything but git objects, which a later collection takes, and the counter of ids."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {
        f"{path.relative_to(folder)} {path.stat().st_size}"
        for path in files
        if "objects" not in path.parts[-3:] and "numbers" not in path.parts
    }


def weights(repository: Repository) -> list[str]:
    return [sha256 for sha256, _ in repository.weights.objects()]


def problems(repository: Repository) -> list[Problem]:
    return fsck(Repository(repository.path))


def with_lora(folder: Path) -> Draft:
    return draft(tree(rules="- b"), lora_folder(folder / "job", "weights" * 50))


def only_rules(_: Path) -> Draft:
    return draft(tree(rules="- " + os.urandom(4000).hex()))


@pytest.mark.parametrize(
    ("proposed", "limit"),
    [(with_lora, 0), (with_lora, 60), (with_lora, 20_000), (with_lora, 50_000), (only_rules, 0), (only_rules, 100), (only_rules, 400)],
)
def test_a_disk_that_refuses_while_a_release_is_prepared(
    repository: Repository, tmp_path: Path, proposed: Callable[[Path], Draft], limit: int
) -> None:
    """20,000 bytes take the configuration and no weights, 50,000 two of the three files: what was written is given back."""
    new, before, stored = proposed(tmp_path), disk(repository.path), weights(repository)
    with no_file_beyond(limit), pytest.raises(StorageError, match=r"Cannot (write|store)") as refused:
        repository.publish(new, "r1")
    assert "Free disk space" in refused.value.hint
    head = repository.head("default")
    assert head is not None and head.id == "r1"
    assert disk(repository.path) == before and weights(repository) == stored and problems(repository) == []
    assert repository.publish(new, "r1").manifest.parent_release_id == "r1"
    assert problems(repository) == []


def test_a_disk_that_refuses_the_commit_gives_the_weights_back(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    new = with_lora(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr("daemon.versions.git_objects.write", full)
        with pytest.raises(StorageError, match="No space left"):
            repository.publish(new, "r1")
    assert weights(repository) == [] and problems(repository) == []
    repository.publish(new, "r1")
    assert problems(repository) == [] and len(weights(repository)) == 3


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # dulwich's file, which could not be flushed
@pytest.mark.parametrize("limit", [0, 20])
def test_a_disk_that_refuses_the_ref(repository: Repository, tmp_path: Path, limit: int) -> None:
    """For the head, for a candidate that is held, for one that is promoted."""
    prepared = repository.prepare(with_lora(tmp_path))
    with no_file_beyond(limit), pytest.raises(StorageError):
        repository.advance(prepared, "r1")
    with no_file_beyond(limit), pytest.raises(StorageError):
        repository.hold(prepared)
    assert [release.id for release in repository.chain("default")] == ["r1"] and repository.held("default") == []
    assert not list(repository.path.glob("refs/**/*.lock"))
    held = repository.hold(prepared)
    assert repository.publish(promote(repository, "default", held.id, who="owner"), "r1").manifest.restores == held.id
    assert problems(repository) == []


def test_a_disk_that_refuses_the_registry_keeps_the_weights(repository: Repository, tmp_path: Path) -> None:
    """What is to be collected is named before it goes; where that cannot be written, nothing goes."""
    head = "r1"
    for number in range(3):
        head = repository.publish(draft(tree(rules=f"- {number}"), lora_folder(tmp_path / f"j{number}", str(number))), head).id
    stored = weights(repository)
    with repository.writing():
        found = collect.find(repository, lambda _: 1)
        assert found
        with no_file_beyond(10), pytest.raises(StorageError):
            collect.remove(repository, found)
    assert weights(repository) == stored and problems(repository) == []


def test_a_mirror_that_cannot_be_written_takes_nothing_back(repository: Repository) -> None:
    """The head has moved: the release is published, and the next start puts the branch for clones right."""
    (repository.path / "refs/heads/default").unlink()
    (repository.path / "refs/heads").rmdir()
    write_atomic(repository.path / "refs/heads", "in the way")
    assert repository.publish(draft(tree(rules="- b")), "r1").id == "r2"
    (repository.path / "refs/heads").unlink()
    assert (Repository(repository.path).path / "refs/heads/default").is_file() and problems(repository) == []

"""What a collection gives up, and what it never does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daemon.errors import Conflict, DataError
from daemon.failpoints import GC_FAILPOINTS
from daemon.versions import collect
from daemon.versions.collect import Item, Kind
from daemon.versions.fsck import Severity, fsck
from daemon.versions.kept import WeightState, weight_state
from daemon.versions.operations import rollback, undo
from daemon.versions.refs import pin_refs
from daemon.versions.release import Release
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


def chain_of(path: Path, count: int) -> Repository:
    """`count` releases, each with a LoRA of its own; the files are an hour and more old."""
    repository = Repository(path / "versions.git")
    for number in range(1, count + 1):
        lora = lora_folder(path / f"job{number}", f"weights {number}")
        (lora / "adapter_config.json").write_text(f'{{"r": {number}, "lora_alpha": 1, "target_modules": ["q_proj"]}}')
        repository.publish(draft(tree(rules=f"- {number}"), lora), f"r{number - 1}" if number > 1 else None)
    age(repository.path)
    return repository


def age(folder: Path) -> None:
    long_ago = time.time() - 2 * collect.GRACE_S
    for path in folder.rglob("*"):
        if path.is_file():
            os.utime(path, (long_ago, long_ago))


def gc(repository: Repository, keep: int = 1, in_use: tuple[str, ...] = ()) -> list[Item]:
    with repository.writing():
        found = collect.find(repository, lambda _: keep, in_use)
        collect.remove(repository, found)
    return found


def state(repository: Repository, release_id: str) -> WeightState:
    return weight_state(repository.release("default", release_id), repository.weights, repository.tombstones)


def whole(repository: Repository) -> list[str]:
    return [release.id for release in repository.chain("default") if state(repository, release.id) is WeightState.KEPT]


def sound(repository: Repository) -> bool:
    return not [problem for problem in fsck(Repository(repository.path)) if problem.severity is Severity.ERROR]


def lora_id(release: Release) -> str:
    assert release.lora is not None
    return release.lora.id


def test_old_weights_go_and_what_is_needed_stays(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 6)
    repository.refs.swap(pin_refs("default") + "r3", None, repository.release("default", "r3").commit_id)
    held = repository.hold(repository.prepare(draft(tree(rules="- h"), lora_folder(tmp_path / "held", "held"))))
    before = [release.content_id for release in repository.chain("default")]
    found = gc(repository, keep=1, in_use=(lora_id(repository.release("default", "r4")),))
    # r1 first, r3 pinned, r4 in use, r5 the last known good, r6 the head
    assert whole(repository) == ["r6", "r5", "r4", "r3", "r1"]
    assert [(item.release_ids, item.scenario) for item in found] == [(("r2",), "default")]
    assert "newest 1" in found[0].why and "r2" in found[0].what
    assert state(repository, "r2") is WeightState.COLLECTED and state(repository, held.id) is WeightState.KEPT
    assert [release.content_id for release in Repository(repository.path).chain("default")] == before
    assert sound(repository)
    assert gc(repository, keep=1, in_use=(lora_id(repository.release("default", "r4")),)) == []


def test_nothing_goes_with_0_nor_while_it_is_among_the_newest(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 4)
    assert gc(repository, keep=0) == [] and gc(repository, keep=4) == []
    assert len(whole(repository)) == 4


def test_a_collected_release_cannot_serve_and_says_what_to_pin(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 4)
    gc(repository)
    with pytest.raises(Conflict, match="r2 were collected on 20") as refused:
        rollback(repository, "default", "r2", who="owner")
    assert "reef pin r2" in refused.value.hint
    with pytest.raises(Conflict, match="were collected"):
        repository.checkout_lora(repository.release("default", "r2"), tmp_path / "loras")
    repository.publish(undo(repository, "default", who="owner"), "r4")
    assert whole(repository) == ["r5", "r4", "r3", "r1"]  # r5 serves r3's content


def test_weights_that_come_back_are_no_longer_missing(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 4)
    gc(repository)
    repository.publish(draft(tree(rules="- again"), tmp_path / "job2"), "r4")
    assert state(repository, "r2") is WeightState.KEPT
    assert rollback(repository, "default", "r2", who="owner").lora is not None and sound(repository)


def test_the_space_is_told_and_given_back(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 4)
    r2 = repository.release("default", "r2")
    checked_out = repository.checkout_lora(r2, tmp_path / "loras")
    assert checked_out is not None and r2.lora is not None
    gguf = r2.lora.file("lora.gguf")
    assert gguf is not None
    (item,) = collect.find(repository, lambda _: 1)
    assert item.size_bytes == r2.lora.size_bytes - gguf.size_bytes, "the GGUF file has a second name, so its bytes stay"
    checked_out.unlink()
    (item,) = collect.find(repository, lambda _: 1)
    assert item.size_bytes == r2.lora.size_bytes


def test_what_nothing_refers_to_goes_once_it_is_old(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 2)
    repository.prepare(draft(tree(rules="- lost"), lora_folder(tmp_path / "lost", "lost")))  # as a publisher that was killed leaves it
    (repository.path / "objects/00").mkdir(exist_ok=True)
    for name in ("lfs/tmp/reef-1", "objects/00/tmp_obj_1", "refs/heads/default.lock"):
        (repository.path / name).write_bytes(b"half")
    assert gc(repository) == [], "a publisher may be about to need it"
    age(repository.path)
    kinds = [item.kind for item in gc(repository)]
    assert kinds == [Kind.LEFT, Kind.LEFT, Kind.LEFT, Kind.OBJECTS, Kind.TEMPORARY, Kind.TEMPORARY, Kind.TEMPORARY]
    assert fsck(Repository(repository.path)) == []


def test_what_a_preparation_takes_up_again_is_young(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 1)
    lost = lora_folder(tmp_path / "lost", "lost")
    repository.prepare(draft(tree(rules="- lost"), lost))
    age(repository.path)
    again = repository.prepare(draft(tree(rules="- lost"), lost))
    assert Kind.LEFT not in [item.kind for item in gc(repository)]
    assert repository.advance(again, "r1").id == "r3" and sound(repository)


def test_objects_that_only_a_foreign_ref_reaches_stay(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 2)
    lost = repository.prepare(draft(tree(rules="- mine")))
    (repository.path / "refs/tags").mkdir(exist_ok=True)
    (repository.path / "refs/tags/mine").write_text(lost.release.commit_id + "\n")
    age(repository.path)
    assert gc(Repository(repository.path)) == []
    assert repository.reader.release(lost.release.commit_id, lost.release.state).tree == lost.release.tree


def test_a_damaged_repository_is_left_alone(tmp_path: Path) -> None:
    repository = chain_of(tmp_path, 4)
    commit = repository.release("default", "r2").commit_id
    (repository.path / "objects" / commit[:2] / commit[2:]).unlink()
    with pytest.raises(DataError, match="is missing"):
        gc(Repository(repository.path))
    assert len(list(repository.weights.objects())) == 12


@pytest.mark.parametrize(("point", "passage"), [("gc.named", 1), ("gc.removed-one", 1), ("gc.removed-one", 2)])
def test_a_collection_that_is_killed_is_finished_by_the_next(tmp_path: Path, point: str, passage: int) -> None:
    assert point in GC_FAILPOINTS
    repository = chain_of(tmp_path, 5)
    code = (
        "import sys; from pathlib import Path; from daemon.versions import collect; from daemon.versions.repository import Repository\n"
        "repository = Repository(Path(sys.argv[1]))\n"
        "with repository.writing(): collect.remove(repository, collect.find(repository, lambda _: 1))"
    )
    environment = {**os.environ, "REEF_FAILPOINT": f"{point}:{passage}"}
    done = subprocess.run([sys.executable, "-P", "-c", code, str(repository.path)], env=environment, timeout=60, check=False)
    assert done.returncode == -9
    again = Repository(repository.path)
    assert sound(again)
    gc(again)
    assert whole(again) == ["r5", "r4", "r1"] and sound(again)
    again.publish(draft(tree(rules="- on")), "r5")


def test_a_preparation_that_another_process_collected_is_not_published(tmp_path: Path) -> None:
    """The head would point to a commit that is not there."""
    path = tmp_path / "versions.git"
    repository, other = Repository(path), Repository(path)
    first = repository.publish(draft(tree(rules="- first")), None)
    for keep in (lambda prepared: repository.advance(prepared, first.id), repository.hold):
        prepared = repository.prepare(draft(tree(rules="- second")))
        with other.writing():
            collect.remove(other, collect.find(other, lambda _: 1, grace_s=-1))
        with pytest.raises(Conflict, match="was collected before it was published"):
            keep(prepared)
    assert [release.id for release in repository.chain("default")] == [first.id] and fsck(repository) == []

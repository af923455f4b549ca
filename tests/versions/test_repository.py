"""What a person would see go wrong with the release chain."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from daemon.errors import BadRequest, Conflict, DataError, NotFound, StorageError
from daemon.harness_tree import HarnessTree
from daemon.records import JSONObject
from daemon.versions.manifest import EvaluationSummary, Operation, RecipeFacts
from daemon.versions.release import ReleaseState
from daemon.versions.repository import Repository
from tests.versions.parts import draft, lora_folder, tree


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "versions.git")


def test_a_release_comes_back_as_it_was_published(repository: Repository, tmp_path: Path) -> None:
    folder = lora_folder(tmp_path / "job")
    first = repository.publish(draft(tree(rules="- a\n- b\n")), None)
    assert first.id == "r1"
    second = repository.publish(
        draft(tree(rules="- a\n", x="---\nname: x\n---\n"), folder, records=("rec_1",), seed=7, evaluation={"tasks": [1]}), "r1"
    )
    again = Repository(tmp_path / "versions.git")
    head = again.head("default")
    assert head is not None and head.commit_id == second.commit_id
    assert head.manifest == second.manifest
    assert head.tree == second.tree
    assert head.evaluation == {"tasks": [1]}
    assert head.manifest.parent_release_id == "r1"
    assert head.manifest.change.startswith("−1 rule · +1 skill · LoRA r16 (")
    assert [release.id for release in again.chain("default")] == ["r2", "r1"]
    assert again.release("default", "r2").manifest.records == ("rec_1",)
    assert again.scenarios() == ["default"]


def test_the_lora_is_checked_out_verified(repository: Repository, tmp_path: Path) -> None:
    folder = lora_folder(tmp_path / "job")
    release = repository.publish(draft(lora=folder), None)
    path = repository.checkout_lora(release, tmp_path / "loras")
    assert path is not None and path.read_bytes() == (folder / "lora.gguf").read_bytes()
    assert path.name == f"{release.manifest.lora_id}.gguf"
    assert repository.checkout_lora(release, tmp_path / "loras") == path
    path.unlink()
    path.write_bytes(b"something else")
    assert repository.checkout_lora(release, tmp_path / "loras") == path
    assert path.read_bytes().startswith(b"GGUF")
    copies = repository.checkout_lora_folder(release, tmp_path / "train")
    assert copies is not None
    (copies / "lora.gguf").write_bytes(b"a trainer writes in place")  # and the store is not touched
    assert repository.checkout_lora(release, tmp_path / "loras") == path
    stored = repository.weights.path_of(str(release.manifest.lora_id))
    stored.chmod(0o644)
    stored.write_bytes(b"altered")
    with pytest.raises(DataError, match="altered"):
        repository.checkout_lora(release, tmp_path / "loras")
    repository.publish(draft(tree(rules="- a"), folder), "r1")  # publishing the same weights mends the object
    assert repository.checkout_lora(release, tmp_path / "loras") is not None


def test_a_stale_publisher_is_told_which_head_stands(repository: Repository) -> None:
    repository.publish(draft(), None)
    slow = repository.prepare(draft(tree(rules="slow")))
    repository.publish(draft(tree(rules="quick")), "r1")
    with pytest.raises(Conflict, match="r3 is the head of default now; you saw r1"):
        repository.advance(slow, "r1")
    with pytest.raises(Conflict, match="r3 is the head"):
        repository.advance(slow, "r3")  # right about the head, yet prepared on an older one
    with pytest.raises(Conflict):
        repository.publish(draft(tree(rules="x")), None)
    assert [release.id for release in repository.chain("default")] == ["r3", "r1"]


def test_of_two_processes_one_wins(repository: Repository, tmp_path: Path) -> None:
    repository.publish(draft(), None)
    outcomes: list[str] = []

    def publish(text: str) -> None:
        try:
            outcomes.append(Repository(tmp_path / "versions.git").publish(draft(tree(rules=text)), "r1").id)
        except Conflict as error:
            outcomes.append(error.message)

    threads = [threading.Thread(target=publish, args=(str(number),)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(outcome[:3] for outcome in outcomes) == ["r2", "r2 ", "r2 ", "r2 ", "r2 ", "r2 "]
    assert len(repository.chain("default")) == 2


def test_held_and_rejected_leave_the_head_alone(repository: Repository, tmp_path: Path) -> None:
    repository.publish(draft(), None)
    held = repository.hold(repository.prepare(draft(lora=lora_folder(tmp_path / "one", "one"), verdict="held: 3 wins, 1 loss")))
    lost = repository.reject(repository.prepare(draft(lora=lora_folder(tmp_path / "two", "two"), verdict="rejected: worse")))
    assert (held.id, held.pending, lost.id, lost.state) == ("r2", True, "r3", ReleaseState.REJECTED)
    assert [release.id for release in repository.held("default")] == ["r2"]
    assert repository.release("default", "r2").lora is not None
    trace = repository.release("default", "r3")
    assert trace.lora is None and trace.manifest.lora_id is not None
    assert not repository.weights.path_of(trace.manifest.lora_id).exists()
    head = repository.head("default")
    assert head is not None and head.id == "r1"
    assert repository.publish(draft(tree(rules="x")), "r1").id == "r4"


def test_rejecting_spares_weights_that_a_release_uses(repository: Repository, tmp_path: Path) -> None:
    folder = lora_folder(tmp_path / "job")
    first = repository.prepare(draft(lora=folder))
    second = repository.prepare(draft(tree(rules="x"), folder))
    repository.hold(second)
    repository.reject(first)
    assert repository.checkout_lora(repository.release("default", "r2"), tmp_path / "loras") is not None


def test_an_unknown_release_names_the_nearest(repository: Repository) -> None:
    repository.publish(draft(), None)
    with pytest.raises(NotFound, match="Nearest: r1"):
        repository.release("default", "r7")
    with pytest.raises(NotFound):
        repository.release("default", "../../config")
    with pytest.raises(BadRequest):
        repository.head("../x")


def test_scenarios_have_chains_of_their_own(repository: Repository) -> None:
    repository.publish(draft(), None)
    repository.publish(draft(scenario="pi", operation=Operation.CREATION), None)
    repository.publish(draft(tree(rules="x"), scenario="pi"), "r1")
    assert repository.scenarios() == ["default", "pi"]
    assert [len(repository.chain(scenario)) for scenario in ("default", "pi")] == [1, 2]


@pytest.mark.parametrize("path", ["../x", "/etc/x", "a//b", "a/./b", "a\\b", "x/.git/config", ".gitattributes", "a\u202eb", "", "C:x"])
def test_a_harness_path_cannot_leave_the_tree(repository: Repository, path: str) -> None:
    with pytest.raises(DataError):
        repository.publish(draft(HarnessTree({path: "x"})), None)
    assert repository.head("default") is None


@pytest.mark.parametrize("files", [{"a": "x" * 300_000}, {"a/b": "", "a": ""}, {"A": "", "a": ""}, {"a": "\ud800"}])
def test_a_harness_that_no_disk_can_hold_is_refused(repository: Repository, files: dict[str, str]) -> None:
    with pytest.raises(DataError):
        repository.publish(draft(HarnessTree(files)), None)


def test_missing_or_linked_weights_are_refused(repository: Repository, tmp_path: Path) -> None:
    folder = lora_folder(tmp_path / "job")
    (folder / "lora.gguf").unlink()
    with pytest.raises(DataError, match=r"lora\.gguf is missing"):
        repository.publish(draft(lora=folder), None)
    (folder / "lora.gguf").symlink_to("/etc/hostname")
    with pytest.raises(DataError, match="no regular file"):
        repository.publish(draft(lora=folder), None)


def test_a_full_disk_changes_nothing(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.publish(draft(), None)
    real = os.fsync
    for number in range(0, 25, 3):
        calls = 0

        def full(descriptor: int, number: int = number) -> None:
            nonlocal calls
            calls += 1
            if calls > number:
                raise OSError(28, "No space left on device")
            real(descriptor)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="No space left"):
            repository.publish(draft(tree(rules="x" * number), lora_folder(tmp_path / f"job{number}", str(number))), "r1")
        monkeypatch.setattr(os, "fsync", real)
        head = repository.head("default")
        assert head is not None and head.id == "r1"
    assert repository.publish(draft(lora=lora_folder(tmp_path / "last")), "r1").manifest.parent_release_id == "r1"
    assert not list((tmp_path / "versions.git" / "lfs" / "tmp").iterdir())


def test_a_folder_that_is_no_repository_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "versions.git").mkdir()
    (tmp_path / "versions.git" / "mine").write_text("x")
    with pytest.raises(DataError, match="no git repository"):
        Repository(tmp_path / "versions.git")


def test_publishing_fsyncs_each_new_file_and_folder_once(repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.publish(draft(tree(rules="- a", one="x", two="y")), None)
    before = {path for path in (tmp_path / "versions.git").rglob("*") if path.is_file()}
    real, count = os.fsync, 0

    def counting(descriptor: int) -> None:
        nonlocal count
        count += 1
        real(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    repository.publish(draft(tree(rules="- a", one="x", two="y"), lora_folder(tmp_path / "job"), evaluation={"a": 1}), "r1")
    fresh = {path for path in (tmp_path / "versions.git").rglob("*") if path.is_file()} - before
    needed = len(fresh) + len({path.parent for path in fresh}) + 2  # and the head with its folder
    print(f"{count} fsyncs, {needed} needed")
    assert count <= 1.5 * needed


def test_odd_values_from_a_recipe_do_no_harm(repository: Repository) -> None:
    summary = EvaluationSummary(p=float("nan"))
    recipe = RecipeFacts(name="x", settings={"rate": float("inf")})
    evaluation: JSONObject = {"score": float("-inf"), "text": "\ud800"}
    release = repository.publish(draft(summary=summary, recipe=recipe, evaluation=evaluation), None)
    again = Repository(repository.path).release("default", release.id)
    assert again.manifest.evaluation == EvaluationSummary() and again.manifest.recipe == RecipeFacts(name="x", settings={"rate": None})
    assert again.evaluation == {"score": None, "text": "\ud800"}
    assert again.manifest == release.manifest
    odd = repository.publish(draft(tree(rules="x"), change="a \ud800 b"), "r1")
    assert Repository(repository.path).head("default") == odd and odd.manifest.change == "a ? b"


def test_a_foreign_ref_does_not_keep_the_repository_from_opening(repository: Repository) -> None:
    release = repository.publish(draft(), None)
    folder = repository.path / "refs/reef/scenarios/NOT ours"
    folder.mkdir()
    (folder / "head").write_text(release.commit_id)
    (repository.path / "refs/reef/scenarios/pi").mkdir()
    (repository.path / "refs/reef/scenarios/pi/head").write_text("0" * 39 + "1")
    assert Repository(repository.path).scenarios() == ["default", "pi"]

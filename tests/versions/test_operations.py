"""Going back, back again, and forward: what a person would see go wrong."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from pydantic import JsonValue

from daemon.errors import Conflict, NotFound
from daemon.versions.fsck import fsck
from daemon.versions.manifest import Operation
from daemon.versions.operations import held_already, promote, rollback, undo
from daemon.versions.release import Draft, Release
from daemon.versions.repository import Repository
from tests.versions.parts import BASE, draft, lora_folder, tree

ENGINE: dict[str, JsonValue] = {"context": 2048}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """r1 empty, r2 with rules (used rec_1), r3 with rules and a LoRA (used rec_2)."""
    made = Repository(tmp_path / "versions.git")
    made.publish(draft(operation=Operation.CREATION), None)
    made.publish(draft(tree(rules="- a"), records=("rec_1",)), "r1")
    made.publish(draft(tree(rules="- a"), lora_folder(tmp_path / "job"), records=("rec_2",), engine=ENGINE), "r2")
    return made


def publish(repository: Repository, drafted: Draft) -> Release:
    head = repository.head("default")
    return repository.publish(drafted, head.id if head else None)


def back(repository: Repository, release_id: str, expected_head: str | None = None) -> Release:
    return publish(repository, rollback(repository, "default", release_id, who="owner", expected_head=expected_head))


def take_back(repository: Repository) -> Release:
    return publish(repository, undo(repository, "default", who="owner"))


def test_rollback_goes_to_any_release_again_and_again(repository: Repository) -> None:
    third = repository.release("default", "r3")
    first = back(repository, "r1", "r3")
    assert (first.id, first.manifest.operation, first.manifest.restores, first.lora) == ("r4", Operation.ROLLBACK, "r1", None)
    assert first.manifest.change == "back to r1: −1 rule · LoRA r16 taken off"
    again = back(repository, "r3")
    assert again.content_id == third.content_id and again.lora == third.lora
    assert again.manifest.engine == ENGINE  # as it serves now
    assert back(repository, "r4").content_id == first.content_id
    assert [release.id for release in repository.chain("default")] == ["r6", "r5", "r4", "r3", "r2", "r1"]


def test_a_candidate_is_held_already_where_content_and_comparison_are_the_same(repository: Repository, tmp_path: Path) -> None:
    harness, weights = tree(rules="- a\n- b"), lora_folder(tmp_path / "first", "other weights")
    drafted = draft(harness, weights, compared_with="r3")
    assert held_already(repository, drafted) is None
    held = repository.hold(repository.prepare(drafted))
    same = draft(harness, lora_folder(tmp_path / "second", "other weights"), compared_with="r3")
    assert held_already(repository, same) == held
    assert held_already(repository, draft(tree(rules="- b"), weights, compared_with="r3")) is None
    assert held_already(repository, draft(harness, lora_folder(tmp_path / "third", "yet others"), compared_with="r3")) is None
    back(repository, "r2")
    assert held_already(repository, draft(harness, weights, compared_with="r5")) is None  # the held one has aged
    back(repository, "r3")
    assert held_already(repository, draft(harness, weights, compared_with="r6")) == held


def test_undo_and_undo_of_undo(repository: Repository) -> None:
    undone = take_back(repository)
    assert undone.content_id == repository.release("default", "r2").content_id
    assert undone.manifest.change.startswith("undo training r3, back to r2")
    redone = take_back(repository)
    assert redone.content_id == repository.release("default", "r3").content_id
    assert take_back(repository).content_id == undone.content_id


def test_what_would_change_nothing_is_refused(repository: Repository) -> None:
    with pytest.raises(Conflict, match="r3 serves already"):
        back(repository, "r3")
    back(repository, "r1")
    with pytest.raises(Conflict, match="r4 serves the very content of r1"):
        back(repository, "r1")
    assert len(repository.chain("default")) == 4


def test_the_first_release_cannot_be_undone(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "versions.git")
    with pytest.raises(Conflict, match="no release yet"):
        take_back(repository)
    repository.publish(draft(), None)
    with pytest.raises(Conflict, match="nothing to undo"):
        take_back(repository)


def test_a_stale_caller_is_told(repository: Repository) -> None:
    with pytest.raises(Conflict, match="r3 is the head of default now; you saw r2"):
        back(repository, "r1", "r2")
    drafted = rollback(repository, "default", "r1", who="owner", expected_head="r3")
    back(repository, "r2")
    with pytest.raises(Conflict, match="r4 is the head"):
        repository.publish(drafted, "r3")
    with pytest.raises(NotFound):
        back(repository, "r99")


def test_a_missing_base_model_is_named(repository: Repository) -> None:
    other = BASE.model_copy(update={"sha256": "c" * 64, "model": "other"})
    repository.publish(draft(base=other), "r3")
    with pytest.raises(Conflict, match=rf"base missing: put back smol\.gguf \(sha256 {'a' * 64}\)"):
        rollback(repository, "default", "r1", who="owner")


def test_promote_publishes_what_was_held(repository: Repository, tmp_path: Path) -> None:
    folder = lora_folder(tmp_path / "candidate", "better")
    held = repository.hold(
        repository.prepare(draft(tree(rules="- a"), folder, records=("rec_3",), verdict="held: 3 wins", evaluation={"a": 1}))
    )
    promoted = publish(repository, promote(repository, "default", held.id, who="owner", expected_head="r3"))
    assert (promoted.id, promoted.manifest.restores, promoted.content_id) == ("r5", "r4", held.content_id)
    assert repository.held("default") == []
    again = Repository(tmp_path / "versions.git")
    assert not again.release("default", "r4").pending
    assert [release.id for release in again.chain("default")] == ["r5", "r3", "r2", "r1"]
    assert again.release("default", "r5").manifest.records == ("rec_3",)
    with pytest.raises(Conflict, match="r4 is promoted, not held"):
        promote(again, "default", "r4", who="owner")
    assert take_back(again).content_id == again.release("default", "r3").content_id


def test_a_held_candidate_ages(repository: Repository) -> None:
    held = repository.hold(repository.prepare(draft(tree(rules="- b"))))
    back(repository, "r1")
    with pytest.raises(Conflict, match="evaluated against r3; r5 serves something else"):
        promote(repository, "default", held.id, who="owner")
    take_back(repository)  # the content that it was compared with serves again
    assert publish(repository, promote(repository, "default", held.id, who="owner")).tree == held.tree


def test_held_and_rejected_cannot_be_rolled_back_to(repository: Repository, tmp_path: Path) -> None:
    repository.hold(repository.prepare(draft(tree(rules="- b"), lora_folder(tmp_path / "held", "held"))))
    repository.reject(repository.prepare(draft(tree(rules="- c"))))
    with pytest.raises(Conflict, match="r4 is held and has never served"):
        back(repository, "r4")
    with pytest.raises(Conflict, match="r5 is rejected"):
        back(repository, "r5")
    assert fsck(Repository(repository.path)) == []


def test_a_promotion_killed_after_the_head_moved_is_finished_at_the_next_start(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = repository.hold(repository.prepare(draft(tree(rules="- b"))))

    def killed(name: str) -> None:
        if name == "publish.head-moved":
            raise KeyboardInterrupt

    monkeypatch.setattr("daemon.versions.repository.failpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        publish(repository, promote(repository, "default", held.id, who="owner"))
    assert repository.held("default") == []  # even before anything is tidied
    again = Repository(repository.path)
    assert [release.id for release in again.chain("default")][:2] == ["r5", "r3"]
    assert not (repository.path / "refs/reef/scenarios/default/held/r4").exists()
    assert fsck(again) == []


@pytest.mark.parametrize("seed", range(3))
def test_any_order_of_operations_keeps_the_chain_whole(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    repository = Repository(tmp_path / "versions.git")
    served = [repository.publish(draft(), None).content_id]  # what should have served, oldest first
    for step in range(25):
        harness = tree(rules=f"- {chance.randrange(4)}")
        choice = chance.choice(["publish", "rollback", "undo", "hold", "promote", "reject"])
        try:
            if choice in ("hold", "reject"):
                prepared = repository.prepare(draft(harness, records=(f"rec_{step}",)))
                repository.hold(prepared) if choice == "hold" else repository.reject(prepared)
                continue
            held = repository.held("default")
            if choice == "promote":
                drafted = promote(repository, "default", held[0].id if held else "r999", who="owner")
                expected = held[0].content_id
            elif choice == "rollback":
                target = chance.choice(repository.chain("default"))
                drafted, expected = rollback(repository, "default", target.id, who="owner"), target.content_id
            elif choice == "undo":
                drafted, expected = undo(repository, "default", who="owner"), served[-2] if len(served) > 1 else ""
            else:
                drafted, expected = draft(harness, records=(f"rec_{step}",)), ""
            published = publish(repository, drafted)
        except (Conflict, NotFound):
            continue
        assert expected in ("", published.content_id)
        served.append(published.content_id)
    assert [release.content_id for release in repository.chain("default")] == served[::-1]
    again = Repository(tmp_path / "versions.git")
    assert again.chain("default") == repository.chain("default")
    assert again.held("default") == repository.held("default")
    assert fsck(again) == []
    numbers = [release.manifest.number for release in again.chain("default")]
    assert numbers == sorted(set(numbers), reverse=True)


def test_going_back_writes_and_syncs_only_what_no_release_has(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rollback must not wait for the disk as long as the publication did that it brings back."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    back(repository, "r1")
    back(repository, "r3")
    # each time the manifest, the root folder and the commit with their folders and the one above; then the head and its mirror
    assert 0 < len(synced) <= 2 * (3 + 3 + 1 + 3)

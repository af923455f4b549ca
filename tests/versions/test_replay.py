"""A held candidate that has aged: what it makes of the release that serves now, or why it cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from daemon.errors import Conflict
from daemon.harness_tree import HarnessTree
from daemon.versions.operations import aged, promote, rollback
from daemon.versions.release import Draft, Release
from daemon.versions.replay import Replay
from daemon.versions.repository import Repository
from tests.versions.parts import BASE, draft, lora_folder, tree


class Bench:
    """A repository whose r1 has one rule and a LoRA."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.repository = Repository(folder / "versions.git")
        self.repository.publish(draft(tree(rules="- a\n"), lora_folder(folder / "first", "first")), None)

    @property
    def head(self) -> Release:
        found = self.repository.head("default")
        assert found is not None
        return found

    def drafted(self, harness: HarnessTree, weights: str = "") -> Draft:
        """With the head's LoRA, or a new one of these bytes."""
        if not weights:
            return replace(draft(harness), lora=self.head.lora)
        return draft(harness, lora_folder(self.folder / weights, weights))

    def publish(self, drafted: Draft) -> Release:
        return self.repository.publish(drafted, self.head.id)

    def hold(self, drafted: Draft) -> Release:
        return self.repository.hold(self.repository.prepare(drafted))

    def again(self, held: Release) -> Replay:
        found = aged(self.repository, "default", held.id)
        assert found is not None
        return found


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_one_that_has_not_aged_is_published_as_it_stands(bench: Bench) -> None:
    held = bench.hold(bench.drafted(tree(rules="- a\n- b\n")))
    assert aged(bench.repository, "default", held.id) is None
    bench.publish(bench.drafted(tree(rules="- a\n- c\n")))
    assert bench.again(held).head.id == "r3"
    bench.publish(rollback(bench.repository, "default", "r1", who="owner"))  # what it was compared with serves again
    assert aged(bench.repository, "default", held.id) is None


def test_rules_and_a_lora_come_together(bench: Bench) -> None:
    rules = bench.hold(bench.drafted(tree(rules="- a\n- b\n")))
    trained = bench.hold(bench.drafted(tree(rules="- a\n"), "trained"))
    bench.publish(bench.drafted(tree(rules="- a\n- c\n"), "other"))
    found = bench.again(rules)
    assert found.tree.files["AGENTS.md"] == "- a\n- c\n- b\n" and found.new_lora is None
    assert found.sentence == "r2 was evaluated against r1; r4 serves now. Its changes fit r4 and are evaluated there."
    with pytest.raises(Conflict, match=r"both changed the same:\n  LoRA: r3 brings the LoRA \w{12}, r4 serves with the LoRA \w{12}"):
        bench.again(trained)
    bench.publish(rollback(bench.repository, "default", "r1", who="owner"))
    bench.publish(bench.drafted(tree(rules="- a\n- d\n")))
    found = bench.again(trained)
    assert found.new_lora == trained.lora and found.tree == bench.head.tree


def test_each_file_that_does_not_fit_is_shown(bench: Bench) -> None:
    held = bench.hold(bench.drafted(tree(rules="- always a\n", lint="wanted")))
    bench.publish(bench.drafted(tree(rules="- never a\n", lint="serves")))
    before = bench.head
    with pytest.raises(Conflict) as refused:
        bench.again(held)
    assert refused.value.message == (
        "r2 was evaluated against r1; r3 serves now, and both changed the same:\n"
        "  AGENTS.md, line 1: r2 says “- always a”, r3 says “- never a”\n"
        "  skills/lint/SKILL.md, line 1: r2 says “wanted”, r3 says “serves”"
    )
    assert "reef evolve" in refused.value.hint and bench.head == before


def test_what_serves_already_is_no_change(bench: Bench) -> None:
    held = bench.hold(bench.drafted(tree(rules="- a\n- b\n")))
    bench.publish(bench.drafted(tree(rules="- a\n- b\n- c\n")))
    with pytest.raises(Conflict, match="What r2 changes is in r3 already; nothing would change"):
        bench.again(held)


def test_another_base_model_takes_the_rules_and_not_the_lora(bench: Bench) -> None:
    rules = bench.hold(bench.drafted(tree(rules="- a\n- b\n")))
    trained = bench.hold(bench.drafted(tree(rules="- a\n"), "trained"))
    other = BASE.model_copy(update={"sha256": "c" * 64, "model": "other"})
    bench.publish(draft(tree(rules="- a\n"), base=other))
    assert bench.again(rules).new_lora is None
    with pytest.raises(Conflict, match="LoRA: r3 brings"):
        bench.again(trained)  # r1's LoRA went with its model
    bare = Bench(bench.folder / "bare")
    bare.publish(draft(tree(rules="- a\n")))
    fresh = bare.hold(bare.drafted(tree(rules="- a\n"), "fresh"))
    bare.publish(draft(tree(rules="- a\n"), base=other))
    with pytest.raises(Conflict, match=r"r3 was made for another base model than other.*base missing: put back smol\.gguf"):
        bare.again(fresh)  # the content is the same, the model is not
    with pytest.raises(Conflict):
        promote(bare.repository, "default", fresh.id, who="owner")


def test_a_stale_caller_and_what_is_not_held_are_refused(bench: Bench) -> None:
    held = bench.hold(bench.drafted(tree(rules="- b\n")))
    bench.publish(bench.drafted(tree(rules="- c\n")))
    with pytest.raises(Conflict, match="r3 is the head of default now; you saw r1"):
        aged(bench.repository, "default", held.id, expected_head="r1")
    with pytest.raises(Conflict, match="r1 is published, not held"):
        aged(bench.repository, "default", "r1")

"""What changed is said in one line, and shown in full."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.harness_tree import HarnessTree
from daemon.serving_hints import Demonstration, ServingHints
from daemon.versions.change import change_line
from daemon.versions.diff import FileStatus, SettingChange, diff
from daemon.versions.manifest import EvaluationSummary, RecipeFacts
from daemon.versions.repository import Repository
from tests.versions import real_lora
from tests.versions.parts import BASE, draft, tree


def demonstrations(count: int, **more: str) -> HarnessTree:
    shown = tuple(Demonstration(prompt=f"p{number}", reply=f"r{number}") for number in range(count))
    return HarnessTree({"serving.json": ServingHints(demonstrations=shown).model_dump_json(), **more})


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        (tree(), tree(), "no change"),
        (tree(rules="- a\n- b\n"), tree(rules="- b\n- c\n- d\n"), "+2 rules −1 rule"),
        (tree(rules="- Be brief.\n- x\n"), tree(rules="- Be very brief.\n- y\n"), "+1 rule −1 rule 1 rule edited"),
        (tree(rules="# A\n- a\n"), tree(rules="# B\n- a\n"), "rules edited"),
        (tree(x="1", y="1"), tree(y="2", z="1"), "+1 skill −1 skill 1 skill edited"),
        (tree(), demonstrations(8), "+8 demonstrations"),
        (demonstrations(8), demonstrations(3), "−5 demonstrations"),
        (tree(), HarnessTree({"serving.json": '{"system_prefix": "Be brief."}'}), "system prefix"),
        (tree(), HarnessTree({"serving.json": "?"}), "serving hints edited"),
        (
            tree(),
            HarnessTree({"settings.json": "{}", "extensions/a.ts": "", "notes.txt": ""}),
            "+1 extension · 1 other file · agent settings",
        ),
    ],
)
def test_the_change_line(tmp_path: Path, before: HarnessTree, after: HarnessTree, line: str) -> None:
    parent = Repository(tmp_path / "versions.git").publish(draft(before), None)
    assert change_line(parent, after, None) == line


def test_the_first_release_and_loras_in_one_line(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "versions.git")
    assert change_line(None, tree(), None) == "the base model, without LoRA or harness"
    first = repository.publish(draft(lora=real_lora.write(tmp_path / "lora")), None)
    assert first.manifest.change.startswith("LoRA r4 (0.0 MB)")
    assert change_line(first, tree(), first.lora) == "no change"
    assert change_line(first, tree(rules="- a"), None) == "+1 rule · LoRA r4 taken off"


def test_two_releases_side_by_side(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "versions.git")
    first = repository.publish(draft(tree(rules="- a\n", x="old\n"), seed=1, engine={"context": 2048}), None)
    summary = EvaluationSummary(held_out_before=0.1, held_out_after=0.9, wins=8, losses=0)
    recipe = RecipeFacts(name="sft", settings={"rate": 0.001})
    second = repository.publish(
        draft(
            tree(rules="- b\n"),
            real_lora.write(tmp_path / "lora"),
            seed=1,
            engine={"context": 4096},
            base=BASE.model_copy(update={"template_sha256": "d" * 64}),
            recipe=recipe,
            summary=summary,
        ),
        first.id,
    )
    found = diff(first, second, repository.weights)
    assert [(change.path, change.status) for change in found.files] == [
        ("AGENTS.md", FileStatus.CHANGED),
        ("skills/x/SKILL.md", FileStatus.REMOVED),
    ]
    assert found.files[0].unified == "--- a/AGENTS.md\n+++ b/AGENTS.md\n@@ -1 +1 @@\n-- a\n+- b\n"
    assert found.lora_before is None and found.lora_after is not None
    assert (found.lora_after.rank, found.lora_after.alpha) == (4, 8.0)
    assert list(found.lora_after.norms) == ["0", "1"] and all(norm > 0 for norm in found.lora_after.norms.values())
    assert SettingChange("engine.context", 2048, 4096) in found.settings
    assert {change.name for change in found.settings} == {
        "base.template_sha256",
        "engine.context",
        "recipe.name",
        "recipe.path",
        "recipe.rate",
    }
    assert found.evaluation_before is None and found.evaluation_after == summary
    assert not found.same_content and diff(second, second).same_content

"""What two changes of one release make together: nothing is lost, and what does not fit is named."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.harness_tree import HarnessTree
from daemon.versions.merge import merge_trees

RULES = "# Rules\n\n- run the tests\n- write plainly\n\n## Style\n\n- short names\n"


def merged(was: dict[str, str], now: dict[str, str], wanted: dict[str, str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    tree, clashes = merge_trees(HarnessTree(was), HarnessTree(now), HarnessTree(wanted))
    return dict(tree.files), [(clash.path, clash.where) for clash in clashes]


def rules(was: str, now: str, wanted: str) -> tuple[str, list[str]]:
    files, clashes = merged({"AGENTS.md": was}, {"AGENTS.md": now}, {"AGENTS.md": wanted})
    return files["AGENTS.md"], [where for _, where in clashes]


def test_changes_of_different_files_come_together() -> None:
    was = {"a.md": "a", "b.md": "b", "c.md": "c"}
    files, clashes = merged(was, was | {"a.md": "A", "d.md": "d"}, {"a.md": "a", "b.md": "B"})
    assert (files, clashes) == ({"a.md": "A", "b.md": "B", "d.md": "d"}, [])


def test_changes_of_different_lines_come_together() -> None:
    now = RULES.replace("- run the tests", "- run the tests first")
    wanted = RULES.replace("- short names", "- short names\n- no abbreviations")
    text, clashes = rules(RULES, now, wanted)
    assert clashes == [] and "tests first" in text and "no abbreviations" in text


def test_new_items_and_new_sections_at_one_place_are_all_kept() -> None:
    text, clashes = rules("- a\n", "- a\n- from now\n- both\n", "- a\n- wanted\n- both\n")
    assert (text, clashes) == ("- a\n- from now\n- both\n- wanted\n", [])
    text, clashes = rules(RULES, RULES + "\n## Git\n\n- small commits\n", RULES + "\n## Docs\n\n- examples first\n")
    assert clashes == [] and text.index("## Git") < text.index("- small commits") < text.index("## Docs") < text.index("- examples first")


def test_the_same_line_changed_twice_is_named_and_stays_as_it_serves() -> None:
    now, wanted = RULES.replace("plainly", "briefly"), RULES.replace("plainly", "at length")
    assert rules(RULES, now, wanted) == (now, ["line 4"])
    assert rules(RULES, RULES.replace("- write plainly\n", ""), wanted)[1] == ["line 4"]
    assert rules("a\n", "a\nmore prose\n", "a\nother prose\n")[1] == ["line 2"]  # no list: which goes first is not for us to say


def test_a_file_that_one_side_removes_and_the_other_edits_is_named() -> None:
    assert merged({"a.md": "a"}, {}, {"a.md": "A"}) == ({}, [("a.md", "")])
    assert merged({"a.md": "a"}, {"a.md": "A"}, {}) == ({"a.md": "A"}, [("a.md", "")])
    assert merged({}, {"a.md": "one"}, {"a.md": "two"})[1] == [("a.md", "line 1")]
    assert merged({"a.md": "a"}, {}, {}) == ({}, [])


def test_json_is_merged_by_its_values() -> None:
    was = {"serving.json": json.dumps({"system_prefix": "p", "sampling": {"temperature": 0.5}})}
    now = {"serving.json": json.dumps({"system_prefix": "q", "sampling": {"temperature": 0.5, "top_k": 20}})}
    wanted = {"serving.json": json.dumps({"system_prefix": "p", "sampling": {}, "demonstrations": [1]})}
    files, clashes = merged(was, now, wanted)
    assert clashes == []
    assert json.loads(files["serving.json"]) == {"system_prefix": "q", "sampling": {"top_k": 20}, "demonstrations": [1]}
    clashing = {"serving.json": json.dumps({"system_prefix": "r", "sampling": {"temperature": 0.9}})}
    assert merged(was, now, clashing)[1] == [("serving.json", "system_prefix")]
    assert merged({}, now, clashing)[1] == [("serving.json", "system_prefix"), ("serving.json", "sampling.temperature")]


def test_two_large_files_of_equal_lines_are_not_compared_for_minutes() -> None:
    was = "a\n" * 3_000
    assert rules(was, was + "b\n", "c\n" + was)[1] == [""]


texts = st.lists(st.sampled_from(["- a", "- b", "## c", "prose", ""]), max_size=7).map("\n".join)


@settings(max_examples=150, deadline=None)
@given(texts, texts, texts)
def test_whatever_changes_a_merge_without_a_clash_loses_nothing(was: str, now: str, wanted: str) -> None:
    assert rules(was, now, was) == (now, []) and rules(was, was, wanted) == (wanted, []) and rules(was, now, now) == (now, [])
    text, clashes = rules(was, now, wanted)
    if clashes:
        return
    lines = set(text.split("\n"))
    old = was.split("\n")
    for side in (now, wanted):  # what a side added is there
        assert {line for line in side.split("\n") if line and line not in old} <= lines

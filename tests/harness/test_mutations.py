"""What a person would see go wrong when learning edits their rules."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.errors import Conflict, DataError
from daemon.harness.hints import read_hints, with_hints
from daemon.harness.mutations import Mutation, MutationKind, apply, inverse
from daemon.harness.rules import parse_rules
from daemon.harness_tree import HarnessTree
from daemon.serving_hints import Demonstration, ServingHints

SKILL = "---\nname: lint\ndescription: When code was changed.\n---\nRun the linter.\n"
RULES = "# Project\n\nHello.\n\n## Testing\n\n- run the tests\n\n## Style <!-- id: looks -->\n\n- short lines\n"


def create(entry: str, text: str) -> Mutation:
    return Mutation(kind=MutationKind.CREATE, entry=entry, text=text, reason="seen", sessions=("ses_1",), author="ace")


def update(entry: str, text: str) -> Mutation:
    return Mutation(kind=MutationKind.UPDATE, entry=entry, text=text)


def remove(entry: str) -> Mutation:
    return Mutation(kind=MutationKind.REMOVE, entry=entry)


def test_sections_are_edited_where_they_stand() -> None:
    tree = HarnessTree({"AGENTS.md": RULES})
    changed = apply(tree, [update("AGENTS.md#testing", "## Testing\n\n- run `make test`"), create("AGENTS.md#git", "- small commits")])
    expected = RULES.replace("- run the tests", "- run `make test`") + "\n## git\n\n- small commits\n"
    assert changed.files["AGENTS.md"] == expected
    gone = apply(changed, [remove("AGENTS.md#looks"), remove("AGENTS.md#git")])
    assert [section.id for section in parse_rules(gone.files["AGENTS.md"]).sections] == ["testing"]
    assert tree.files["AGENTS.md"] == RULES


def test_a_section_keeps_its_heading_unless_the_new_text_has_one() -> None:
    tree = apply(HarnessTree({"AGENTS.md": RULES}), [update("AGENTS.md#testing", "- run them"), update("AGENTS.md#looks", "- long lines")])
    expected = RULES.replace("- run the tests", "- run them").replace("- short lines", "- long lines")
    assert tree.files["AGENTS.md"] == expected


def test_all_or_none() -> None:
    tree = HarnessTree({"AGENTS.md": RULES})
    with pytest.raises(Conflict, match=r"skills/none/SKILL\.md is not there to remove"):
        apply(tree, [create("skills/lint/SKILL.md", SKILL), remove("skills/none/SKILL.md")])
    with pytest.raises(Conflict, match="exists already"):
        apply(tree, [create("AGENTS.md", "x")])
    assert tree.files == {"AGENTS.md": RULES}


def test_an_edit_is_taken_back_exactly() -> None:
    tree = HarnessTree({"AGENTS.md": RULES})
    changed = apply(tree, [remove("AGENTS.md#testing"), create("skills/lint/SKILL.md", SKILL), create("prompts/a.md", "x")])
    assert apply(changed, inverse(tree, changed)) == tree


_ENTRIES = (
    "AGENTS.md#testing",
    "AGENTS.md#git",
    "AGENTS.md",
    "extensions/c#.ts",
    "extensions/a",
    "extensions/a/b",
    "commands/x.md",
    "settings.json",
)
_TEXTS = ("", "{}", "- a line", "no end\n\n\n", "## Git\n\n- small\r\n", "# Top\n\n## Testing\n\n- run them")
_MUTATIONS = st.lists(
    st.builds(
        lambda kind, entry, text: Mutation(kind=kind, entry=entry, text=None if kind is MutationKind.REMOVE else text),
        st.sampled_from(MutationKind),
        st.sampled_from(_ENTRIES),
        st.sampled_from(_TEXTS),
    ),
    max_size=5,
)


@settings(max_examples=120, deadline=None)
@given(st.lists(_MUTATIONS, max_size=4))
def test_whatever_was_done_is_undone_exactly(steps: list[list[Mutation]]) -> None:
    tree = HarnessTree({"AGENTS.md": RULES})
    for mutations in steps:
        before = dict(tree.files)
        try:
            changed = apply(tree, mutations)
        except (Conflict, DataError):
            assert tree.files == before, "all or none"
            continue
        assert tree.files == before and apply(changed, inverse(tree, changed)) == tree
        tree = changed


def test_a_file_whose_name_holds_the_sign_of_a_section_is_a_file() -> None:
    tree = HarnessTree({"extensions/c#.ts": "one", "skills/lint/SKILL.md": SKILL, "skills/lint/#SKILL.md#": "an editor's"})
    changed = apply(tree, [update("extensions/c#.ts", "two"), remove("skills/lint/#SKILL.md#")])
    assert changed.files == {"extensions/c#.ts": "two", "skills/lint/SKILL.md": SKILL}
    assert apply(changed, inverse(tree, changed)) == tree


_LINES = st.lists(st.sampled_from(["## A", "## B c", "text", "", "```", "- x", "~~~", "# top", "## D <!-- id: z -->"]), max_size=12)


@settings(max_examples=60, deadline=None)
@given(_LINES)
def test_rules_are_split_without_loss(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        assert parse_rules(text).text == text
    except DataError as error:
        assert "is used on line" in error.message


def test_a_heading_inside_a_code_block_is_no_section() -> None:
    assert [section.id for section in parse_rules("## A\n```\n## not one\n```\n## B\n").sections] == ["a", "b"]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"AGENTS.md": "## A\n\n## A\n"}, r"AGENTS\.md:3: the section id 'a' is used on line 1"),
        ({"skills/lint/SKILL.md": "no front matter"}, r"skills/lint/SKILL\.md:1: `name` must be 'lint'"),
        ({"skills/lint/SKILL.md": "---\nname: other\ndescription: d\n---\n"}, r"SKILL\.md:2: `name`"),
        ({"skills/lint/SKILL.md": "---\nname: lint\ndescription: " + "d" * 1025 + "\n---\n"}, r"SKILL\.md:3: `description`"),
        ({"skills/lint/SKILL.md": "---\nname: lint\nx: a: b\n---\n"}, r"SKILL\.md:3: the front matter is no YAML"),
        ({"skills/lint/SKILL.md": "---\nname: lint\n"}, r"SKILL\.md:1: the front matter does not end"),
        ({"skills/lint/extra.md": "x"}, r"has no SKILL\.md"),
        ({"skills/Lint/SKILL.md": SKILL}, "no skill name"),
        ({"settings.json": "{\n\n x}"}, r"settings\.json:3"),
        ({"serving.json": '{\n "system_prefix": 1}'}, r"serving\.json:2: system_prefix"),
        ({"serving.json": '{\n "demonstrations": [\n  {"prompt": "a",\n   "reply": 2}]}'}, r"serving\.json:4: demonstrations\.0\.reply"),
        ({"serving.json": '{\n\n"system_prefix"}'}, r"serving\.json:3: the file: Invalid JSON"),
        ({"prompts/deep/x.md": "x"}, r"prompts/NAME\.md"),
    ],
)
def test_what_an_agent_cannot_read_is_named_with_its_line(files: dict[str, str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        apply(HarnessTree(), [create(path, text) for path, text in files.items()])


def test_a_mutation_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="need `text`"):
        Mutation(kind=MutationKind.CREATE, entry="AGENTS.md")
    with pytest.raises(DataError, match=r"only AGENTS\.md has sections"):
        apply(HarnessTree(), [create("prompts/a.md#x", "y")])
    with pytest.raises(DataError, match=r"only AGENTS\.md has sections"):
        apply(HarnessTree({"AGENTS.md": RULES}), [remove("AGENTS.md#")])
    with pytest.raises(DataError, match="no section id"):
        apply(HarnessTree(), [create("AGENTS.md#Not An Id", "y")])


def test_hints_survive_the_tree() -> None:
    hints = ServingHints(system_prefix="Be brief.", demonstrations=(Demonstration(prompt="a", reply="b", source="rec_1"),))
    tree = with_hints(HarnessTree({"AGENTS.md": "x"}), hints)
    assert read_hints(tree) == hints
    assert with_hints(tree, ServingHints()).files == {"AGENTS.md": "x"}
    assert read_hints(HarnessTree()) == ServingHints()

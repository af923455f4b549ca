"""Every verb explains itself, and the printed reference says the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from reef_cli.main import build_app
from reef_cli.reference import help_text, reference
from reef_cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
WITHOUT_JSON = {"serve", "tui"}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_verb_has_its_sentence_an_example_and_json(verb) -> None:
    text = help_text(build_app(verb.name), verb.name)
    assert verb.sentence.split()[0] in text
    assert verb.sentence.endswith(".")
    assert verb.sentence.count(". ") == 0
    assert "Example" in text
    assert f"reef {verb.name}" in text.split("Example", 1)[1]
    assert ("--json" in text) != (verb.name in WITHOUT_JSON)


def test_every_file_of_commands_is_a_listed_verb() -> None:
    files = {path.stem for path in (ROOT / "reef_cli" / "commands").glob("*.py")} - {"__init__"}
    assert {name.removesuffix("_") for name in files} == {verb.name for verb in VERBS}


def test_the_printed_reference_is_current() -> None:
    assert (ROOT / "docs" / "cli.md").read_text() == reference(), "renew it: .venv/bin/python -m reef_cli.reference > docs/cli.md"


def test_every_verb_is_listed_without_being_imported() -> None:
    text = help_text(build_app(""), "")
    assert text == "" or "Error" in text or "Usage" in text
    listed = {command.name for command in build_app("").registered_commands}
    assert listed == {verb.name for verb in VERBS}

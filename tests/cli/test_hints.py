"""What a sentence or a hint tells people to type exists."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from reef_cli.verbs import VERBS

ROOT = Path(__file__).parents[2]
_TYPED = re.compile(r"(?:`|: )reef ([a-z]+)")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    source = path.read_text()
    for node in ast.walk(ast.parse(source)) if "reef " in source else ():
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def test_every_command_that_a_hint_names_is_there() -> None:
    known = {verb.name for verb in VERBS}
    folders = ("daemon", "reef_cli", "recipes", "adapters")
    named = [
        (f"{path.relative_to(ROOT)}:{line}", verb)
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line, text in texts(path)
        for verb in _TYPED.findall(text)
    ]
    assert len(named) > 50
    assert [(where, verb) for where, verb in named if verb not in known] == []

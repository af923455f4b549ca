"""Serving hints as a file of the harness tree: `serving.json` ↔ `ServingHints`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import ValidationError

from daemon.errors import DataError
from daemon.harness_tree import SERVING_HINTS_PATH, HarnessTree
from daemon.serving_hints import ServingHints


def read_hints(tree: HarnessTree) -> ServingHints:
    """Empty hints for a tree without `serving.json`.

    Raises:
        DataError: names the line and the field that is wrong.
    """
    text = tree.files.get(SERVING_HINTS_PATH)
    if text is None:
        return ServingHints()
    try:
        return ServingHints.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"]) or "the file"
        hint = "Its fields: system_prefix, demonstrations, sampling."
        raise DataError(f"{SERVING_HINTS_PATH}:{_line(text, first['loc'])}: {field}: {first['msg']}.", hint) from error


def with_hints(tree: HarnessTree, hints: ServingHints) -> HarnessTree:
    """The tree with these hints; empty ones leave no file."""
    files = {path: text for path, text in tree.files.items() if path != SERVING_HINTS_PATH}
    if hints != ServingHints():
        files[SERVING_HINTS_PATH] = hints_text(hints)
    return HarnessTree(files)


def hints_text(hints: ServingHints) -> str:
    """The text of `serving.json`: one line a value, so that a diff reads well."""
    return hints.model_dump_json(indent=1) + "\n"


def _line(text: str, field: Sequence[str | int]) -> int:
    """The line where JSON breaks off; else that of the innermost field that is there."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return error.lineno
    except ValueError:
        return 1
    place = 0
    for part in field:
        place = max(place, text.find(f'"{part}"', place))
    return text.count("\n", 0, place) + 1

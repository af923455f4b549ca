"""What a person wrote by hand: what no recipe may take out without being seen."""

from __future__ import annotations

import re
from itertools import pairwise

from daemon.versions.manifest import Operation
from daemon.versions.repository import Repository

_WORD = re.compile(r"\w")


def personal_lines(repository: Repository, scenario: str) -> dict[str, tuple[str, ...]]:
    """Lines of what serves that came in by an edit by hand, by path. JSON files are left out: their values are compared one by one."""
    chain = repository.chain(scenario)
    if not chain:
        return {}
    written: dict[str, set[str]] = {}
    for release, before in pairwise(chain):
        if release.manifest.operation is not Operation.EDIT:
            continue
        for path, text in release.tree.files.items():
            old = before.tree.files.get(path, "")
            if text != old and not path.endswith(".json"):
                written.setdefault(path, set()).update(set(text.split("\n")) - set(old.split("\n")))
    found: dict[str, tuple[str, ...]] = {}
    for path, lines in written.items():
        kept = tuple(line for line in chain[0].tree.files.get(path, "").split("\n") if line in lines and _WORD.search(line))
        if kept:
            found[path] = kept
    return found

"""What a person may type for a release."""

from __future__ import annotations

from pathlib import Path

import pytest

from daemon.errors import NotFound
from daemon.versions.names import named
from daemon.versions.repository import Repository
from tests.versions.parts import draft, tree


def test_a_release_by_its_id_and_by_its_distance(tmp_path: Path) -> None:
    repository = Repository(tmp_path / "versions.git")
    with pytest.raises(NotFound, match="no release yet"):
        named(repository, "default", "head")
    head: str | None = None
    for text in ("a", "b", "c"):
        head = repository.publish(draft(tree(rules=f"- {text}\n")), head).id
    held = repository.hold(repository.prepare(draft(tree(rules="- d\n"), compared_with="r2")))
    names = ("r2", "head", "head~0", "head~2", "r3~1", " r1 ", held.id, f"{held.id}~1", f"{held.id}~2")
    assert [named(repository, "default", name).id for name in names] == ["r2", "r3", "r3", "r1", "r2", "r1", "r4", "r2", "r1"]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("head~3", "r1 is the first"),
        ("r1~1", "r1 is the first"),
        ("r9", "no release r9"),
        ("~1", "no release"),
        ("head~x", "names no release"),
        ("head~-1", "names no release"),
        ("r1~99999999", "names no release"),
    ],
)
def test_what_is_not_there_is_said_with_what_is(tmp_path: Path, name: str, said: str) -> None:
    repository = Repository(tmp_path / "versions.git")
    head: str | None = None
    for text in ("a", "b", "c"):
        head = repository.publish(draft(tree(rules=f"- {text}\n")), head).id
    with pytest.raises(NotFound, match=said) as caught:
        named(repository, "default", name)
    assert caught.value.hint

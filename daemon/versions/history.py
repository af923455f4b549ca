"""What each release of a scenario changed in the files, straight from the git trees: nothing that two releases share is read twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from dulwich.objects import ObjectID

from daemon.versions.git_objects import ObjectReader
from daemon.versions.refs import head_ref
from daemon.versions.repository import Repository

_HARNESS: Final = b"harness"
_LORA: Final = b"lora"
_TREE_MODE: Final = 0o040000
_MOST_DEEP: Final = 16


@dataclass(frozen=True, slots=True)
class FileStep:
    """One file that a commit added, changed or removed: the ids of its texts."""

    path: str
    before: ObjectID | None
    after: ObjectID | None


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of a chain, against the one before it."""

    commit_id: str
    files: tuple[FileStep, ...]
    lora_before: ObjectID | None  # the folder of pointers; equal ids are equal weights
    lora_after: ObjectID | None


@dataclass(frozen=True, slots=True)
class _Roots:
    """What a commit points to."""

    parent: str | None
    harness: ObjectID | None
    lora: ObjectID | None


class History:
    """The chains of one repository; what was found once is kept, as commits never change. Safe for threads: at worst two read the same."""

    def __init__(self, repository: Repository) -> None:
        self._refs = repository.refs
        self._reader = repository.reader
        self._known: dict[str, _Roots] = {}
        self._steps: dict[str, Step] = {}

    def steps(self, scenario: str) -> Iterator[Step]:
        """Oldest first. Raises DataError where the repository is damaged."""
        ids: list[str] = []
        commit_id = self._refs.get(head_ref(scenario))
        while commit_id is not None:
            ids.append(commit_id)
            commit_id = self._roots(commit_id).parent
        before = _Roots(None, None, None)
        for commit_id in reversed(ids):
            after = self._roots(commit_id)
            yield self._step(commit_id, before, after)
            before = after

    def step(self, commit_id: str) -> Step:
        """Of a candidate beside the chain, against what it was made on."""
        after = self._roots(commit_id)
        return self._step(commit_id, self._roots(after.parent) if after.parent else _Roots(None, None, None), after)

    def _step(self, commit_id: str, before: _Roots, after: _Roots) -> Step:
        known = self._steps.get(commit_id)
        if known is None:
            files = tuple(changed_files(self._reader, before.harness, after.harness))
            known = self._steps[commit_id] = Step(commit_id, files, before.lora, after.lora)
        return known

    def _roots(self, commit_id: str) -> _Roots:
        known = self._known.get(commit_id)
        if known is None:
            commit = self._reader.commit(commit_id)
            entries = {entry.path: entry.sha for entry in self._reader.tree(commit.tree).items()}
            parent = commit.parents[0].decode() if commit.parents else None
            known = self._known[commit_id] = _Roots(parent, entries.get(_HARNESS), entries.get(_LORA))
        return known


def changed_files(reader: ObjectReader, before: ObjectID | None, after: ObjectID | None) -> Iterator[FileStep]:
    """The files below two trees that are not the same, by path."""
    old, new = _files_that_differ(reader, before, after, "", 0)
    for path in sorted({*old, *new}):
        yield FileStep(path, old.get(path), new.get(path))


def _files_that_differ(
    reader: ObjectReader, before: ObjectID | None, after: ObjectID | None, prefix: str, depth: int
) -> tuple[dict[str, ObjectID], dict[str, ObjectID]]:
    found: tuple[dict[str, ObjectID], dict[str, ObjectID]] = {}, {}
    if before == after or depth > _MOST_DEEP:
        return found
    sides = _entries(reader, before), _entries(reader, after)
    for name in {*sides[0], *sides[1]}:
        was, now = sides[0].get(name), sides[1].get(name)
        if was == now:
            continue
        path = prefix + name.decode(errors="replace")
        old, new = (one[1] if one is not None and one[0] else None for one in (was, now))
        for side, below in zip(found, _files_that_differ(reader, old, new, f"{path}/", depth + 1), strict=True):
            side.update(below)
        for side, one in zip(found, (was, now), strict=True):
            if one is not None and not one[0]:
                side[path] = one[1]
    return found


def _entries(reader: ObjectReader, tree_id: ObjectID | None) -> Mapping[bytes, tuple[bool, ObjectID]]:
    """Name → whether it is a folder, and its object."""
    if tree_id is None:
        return {}
    items = reader.tree(tree_id).items()
    return {item.path: (item.mode == _TREE_MODE, item.sha) for item in items if item.path is not None and item.sha is not None}

"""What a repository of releases can give up: weights of old releases, what nothing refers to, what killed writers left.

Never touched: the weights of the first release, the head, the last known good one, pinned and held ones, the newest `keep` of a chain, and
whatever serves. A release whose weights go stays in the chain with its manifest; the registry of tombstones names them before the first
file goes, so that a crash in between leaves nothing that looks like damage.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from dulwich.objects import Commit, ObjectID, ShaFile, Tree

from daemon.errors import StorageError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder
from daemon.versions.refs import pin_refs
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository

GRACE_S: Final = 3600.0
"""What nothing refers to stays this long: another process may be about to publish it."""
_COMMIT, _TREE, _TAG = 1, 2, 4


class Kind(StrEnum):
    WEIGHTS = "weights"  # of a release that stays without them
    LEFT = "left weights"  # nothing refers to them
    OBJECTS = "git objects"
    TEMPORARY = "temporary"
    COPY = "copy"  # of a LoRA, for the engine
    RUN = "run"


@dataclass(frozen=True, slots=True)
class Item:
    """What can go, and why. `size_bytes` is what the disk gets back."""

    kind: Kind
    what: str
    why: str
    paths: tuple[Path, ...]
    size_bytes: int = 0
    scenario: str = ""
    release_ids: tuple[str, ...] = ()
    sha256s: tuple[str, ...] = ()  # of weights that a release names


def find(repository: Repository, keep: Callable[[str], int], in_use: Collection[str] = (), *, grace_s: float = GRACE_S) -> list[Item]:
    """All that can go; nothing changes. The caller holds the repository's write lock until it has removed them.

    Args:
        keep: scenario → how many of its newest releases keep their weights; 0: all of them.
        in_use: ids of LoRAs that the engine may be asked for.

    Raises:
        DataError: the repository is damaged, so that what is needed cannot be known.
    """
    young = time.time() - grace_s
    kept, named = set(in_use), set[str]()
    old: list[Release] = []
    for scenario in repository.refs.all_scenarios():
        chain, held = repository.chain(scenario), repository.held(scenario)
        needed = {release.commit_id for release in kept_whole(repository, scenario, chain, keep(scenario))}
        for release in (*chain, *held):
            files = {stored.sha256 for stored in (release.lora.files if release.lora else ())}
            named |= files
            if (
                release.commit_id in needed
                or release.state is ReleaseState.HELD
                or (release.lora is not None and release.lora.id in in_use)
            ):
                kept |= files
            elif files:
                old.append(release)
    items = list(_old_weights(repository, old, kept, keep))
    items += _left_weights(repository, named | kept, young)
    items += _objects(repository, young)
    items += _temporaries(repository.path, young)
    return sized(items)


def kept_whole(repository: Repository, scenario: str, chain: Sequence[Release], keep: int) -> Iterator[Release]:
    """The releases of a chain (newest first) that never give up their weights."""
    pinned = set(repository.refs.below(pin_refs(scenario)).values())
    yield from chain if keep == 0 else chain[:keep]
    if chain:
        yield chain[0]
        yield chain[-1]
        yield from (release for release in chain if release.commit_id in pinned)
        good = next((release for release in chain[1:] if release.content_id != chain[0].content_id), None)
        if good is not None:  # what an undo brings back
            yield good


def remove(repository: Repository, items: Sequence[Item]) -> None:
    """Remove what `find` found; the caller holds the write lock. A crash at any point is finished by the next collection.

    Raises:
        StorageError: the disk refuses; what is left is found again.
    """
    given_up = [sha256 for item in items for sha256 in item.sha256s]
    if given_up:
        repository.tombstones.add({}, collected=given_up)
    failpoint("gc.named")
    try:
        for item in items:
            _remove(item)
            failpoint("gc.removed-one")
    except OSError as error:
        raise StorageError(f"Cannot remove {error.filename}: {error.strerror}.", "Mend its permissions, then: reef gc") from error


def sized(items: Iterable[Item]) -> list[Item]:
    """Each with what it gives back: a file with several names counts with the last of them."""
    links: dict[tuple[int, int], int] = {}
    return [replace(item, size_bytes=sum(_given_back(path, links) for path in item.paths)) for item in items]


def left_in(folder: Path, pattern: str, young: float) -> Iterator[Path]:
    """Files and folders that nobody has touched since `young`, in seconds since the epoch."""
    for path in sorted(folder.glob(pattern)):
        if path.lstat().st_mtime <= young:
            yield path


def _given_back(path: Path, links: dict[tuple[int, int], int]) -> int:
    files = [path] if not path.is_dir() or path.is_symlink() else [one for one in path.rglob("*") if one.is_file() and not one.is_symlink()]
    size = 0
    for file in files:
        about = file.lstat()
        key = (about.st_dev, about.st_ino)
        links[key] = links.get(key, about.st_nlink) - 1
        size += about.st_size if links[key] == 0 else 0
    return size


def _old_weights(repository: Repository, old: Sequence[Release], kept: Collection[str], keep: Callable[[str], int]) -> Iterator[Item]:
    """One item a LoRA, with all releases that carry it."""
    carrying: dict[str, list[Release]] = {}
    for release in old:
        carrying.setdefault(release.lora.id if release.lora is not None else "", []).append(release)
    for lora, releases in reversed(carrying.items()):  # the oldest first
        files = {stored.sha256 for release in releases for stored in (release.lora.files if release.lora else ())} - set(kept)
        files = {sha256 for sha256 in files if repository.weights.path_of(sha256).is_file()}
        if not files:
            continue
        scenario = releases[0].manifest.scenario
        ids = tuple(sorted((release.id for release in releases), key=lambda one: int(one[1:])))
        why = f"not pinned, and older than the newest {keep(scenario)} releases"
        paths = tuple(repository.weights.path_of(sha256) for sha256 in sorted(files))
        what = f"LoRA {lora[:12]} of {scenario} {', '.join(ids)}"
        yield Item(Kind.WEIGHTS, what, why, paths, scenario=scenario, release_ids=ids, sha256s=tuple(sorted(files)))


def _left_weights(repository: Repository, needed: Collection[str], young: float) -> Iterator[Item]:
    for sha256, path in repository.weights.objects():
        if sha256 not in needed and path.stat().st_mtime <= young:
            why = "no release names them: rejected, given up, or left by an interrupted publish"
            yield Item(Kind.LEFT, f"weights {sha256[:12]}", why, (path,))


def _objects(repository: Repository, young: float) -> Iterator[Item]:
    """Loose objects that no ref reaches. Packs, which only a foreign git makes, are left to it."""
    loose = [path for path in (repository.path / "objects").glob("[0-9a-f][0-9a-f]/*") if len(path.name) == 38]
    old = [path for path in loose if path.stat().st_mtime <= young]
    if not old:
        return
    reached = reachable(repository)
    paths = tuple(path for path in old if (path.parent.name + path.name).encode() not in reached)
    if paths:
        count = f"{len(paths)} git objects" if len(paths) > 1 else "1 git object"
        yield Item(Kind.OBJECTS, count, "no ref reaches them: left by interrupted publishes and candidates that were given up", paths)


def reachable(repository: Repository) -> set[bytes]:
    """Ids of all objects that any ref reaches, foreign refs included. Raises DataError where one cannot be read."""
    seen: set[bytes] = set()
    waiting: list[bytes] = [commit_id.encode() for commit_id in repository.refs.everything().values()]
    while waiting:
        object_id = waiting.pop()
        if object_id in seen:
            continue
        seen.add(object_id)
        found = _parsed(repository, object_id)
        if isinstance(found, Commit):
            waiting += [found.tree, *found.parents]
        elif isinstance(found, Tree):
            for entry in found.items():
                if entry.sha is not None and entry.mode is not None:
                    if entry.mode & 0o170000 == 0o040000:
                        waiting.append(entry.sha)
                    else:
                        seen.add(entry.sha)
        elif found is not None:
            waiting.append(found)
    return seen


def _parsed(repository: Repository, object_id: bytes) -> Commit | Tree | bytes | None:
    """A commit, a tree, what a tag points to, or None for a file."""
    kind, data = repository.reader.checked(ObjectID(object_id))
    if kind == _TAG:
        return data.split(b"\n", 1)[0].removeprefix(b"object ")
    if kind not in (_COMMIT, _TREE):
        return None
    found = ShaFile.from_raw_string(kind, data, ObjectID(object_id))
    return found if isinstance(found, Commit | Tree) else None


def _temporaries(path: Path, young: float) -> Iterator[Item]:
    for pattern in ("lfs/tmp/*", "objects/??/tmp_obj_*", "refs/**/*.lock", "reef/.*.tmp"):
        for left in left_in(path, pattern, young):
            yield Item(Kind.TEMPORARY, str(left.relative_to(path.parent)), "left by a writer that was killed", (left,))


def _remove(item: Item) -> None:
    folders: set[Path] = set()
    for path in item.paths:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        folders.add(path.parent)
    for folder in sorted(folders):
        if folder.is_dir():
            fsync_folder(folder)

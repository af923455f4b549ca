"""Replacing objects of a repository by their tombstones."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from dulwich.objects import Blob, ObjectID
from dulwich.repo import Repo

from daemon.files import fsync_folder
from daemon.versions import git_objects
from daemon.versions.tombstones import Tombstones, Words

_BLOB = 3


def replaced(repo: Repo, words: Words) -> dict[ObjectID, bytes]:
    """The files of all releases, of candidates and of what an interrupted publish left, that hold any of it, and their new content."""
    found: dict[ObjectID, bytes] = {}
    for object_id in repo.object_store:
        kind, data = repo.object_store.get_raw(object_id)
        if kind != _BLOB:
            continue
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode()
            new = words.without(text)
            if new != text:
                found[object_id] = new.encode()
    return found


def bury(repo: Repo, folder: Path, tombstones: Tombstones, contents: Mapping[ObjectID, bytes]) -> None:
    """Replace objects for good: the registry first, so that a crash in between leaves nothing that looks like damage.

    Raises OSError.
    """
    if not contents:
        return
    _unpack(repo, folder)
    blobs = {object_id: Blob.from_string(data) for object_id, data in contents.items()}
    tombstones.add({object_id.decode(): blob.id.decode() for object_id, blob in blobs.items()})
    for object_id, blob in blobs.items():
        name = object_id.decode()
        target = folder / name[:2] / name[2:]
        temporary = target.parent / f"tmp_obj_{secrets.token_hex(6)}"
        with temporary.open("xb") as stream:
            stream.write(blob.as_legacy_object())
            stream.flush()
            os.fsync(stream.fileno())
        temporary.chmod(0o444)
        os.replace(temporary, target)
        fsync_folder(target.parent)


def _unpack(repo: Repo, folder: Path) -> None:
    """Packs, which a foreign git may have made, become loose objects: only these can be replaced one by one."""
    packs = list(repo.object_store.packs)
    for pack in packs:
        git_objects.write(folder, list(pack.iterobjects()), set())
    repo.object_store.close()
    for path in sorted((folder / "pack").glob("*")) if packs else ():
        path.unlink()


def erase_files(paths: Sequence[Path]) -> None:
    """Unlink these; folders are synced. Raises OSError."""
    for path in paths:
        path.unlink(missing_ok=True)
        if path.parent.is_dir():
            fsync_folder(path.parent)

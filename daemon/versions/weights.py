"""The Git LFS object store: where the bytes of weights lie, named by their sha256.

The layout is git-lfs's own (`lfs/objects/aa/bb/<sha256>`). dulwich's `LFSStore` reads it as well, but writes without fsync
and through memory; weights must be durable before a commit names them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DataError, StorageError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder, sha256_file
from daemon.versions.manifest import StoredFile

_BLOCK_BYTES = 1 << 20
_TEMPORARY_PREFIX = "reef-"


@dataclass(frozen=True, slots=True)
class Stored:
    """`files` are durable; `fresh` are the sha256 of those that were not there before."""

    files: tuple[StoredFile, ...]
    fresh: tuple[str, ...]


class WeightStore:
    """Objects under `<folder>/objects`. Writers hold the repository's lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path_of(self, sha256: str) -> Path:
        return self.folder / "objects" / sha256[:2] / sha256[2:4] / sha256

    def put(self, sources: Iterable[Path]) -> Stored:
        """Copy files in: temporary name, write, fsync, rename; then fsync each touched folder once.

        Raises:
            DataError: a source is no regular file. StorageError: disk full or failing; nothing half written has a name.
        """
        files: list[StoredFile] = []
        fresh: list[str] = []
        folders: set[Path] = set()
        try:
            (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
            for source in sources:
                stored = self._put_one(source, folders, fresh)
                files.append(stored)
                failpoint("publish.weights-stored")
            for folder in sorted(folders):
                fsync_folder(folder)
        except OSError as error:
            for sha256 in fresh:  # a full disk gets its space back
                self.remove(sha256)
            raise StorageError(f"Cannot store weights in {self.folder}: {error.strerror}.", "Free disk space, then try again.") from error
        return Stored(tuple(files), tuple(fresh))

    def _put_one(self, source: Path, folders: set[Path], fresh: list[str]) -> StoredFile:
        if source.is_symlink() or not source.is_file():
            raise DataError(f"{source.name} is missing or no regular file.", f"Look into {source.parent}.")
        temporary = self.folder / "tmp" / f"{_TEMPORARY_PREFIX}{secrets.token_hex(8)}"
        digest = hashlib.sha256()
        size_bytes = 0
        try:
            with source.open("rb") as reader, temporary.open("xb") as writer:
                while block := reader.read(_BLOCK_BYTES):
                    digest.update(block)
                    size_bytes += writer.write(block)
                stored = StoredFile(name=source.name, sha256=digest.hexdigest(), size_bytes=size_bytes)
                target = self.path_of(stored.sha256)
                folders.update(missing_parents(target, self.folder))
                folders.add(target.parent)  # also when the object is there: an earlier process may have died before this fsync
                if self.is_whole(stored):
                    target.touch()  # young again: nothing collects it before the commit that names it
                    return stored
                writer.flush()
                os.fsync(writer.fileno())
            if not target.exists():
                fresh.append(stored.sha256)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.chmod(0o444)
            os.replace(temporary, target)  # a damaged object of this name is mended by the way
            return stored
        finally:
            temporary.unlink(missing_ok=True)

    def put_back(self, stored: StoredFile, source: Path) -> bool:
        """Store `source` in place of a missing or damaged object, if it holds its bytes. Raises as `put`."""
        return sha256_file(source) == stored.sha256 and self.put([source]).files[0].sha256 == stored.sha256

    def is_whole(self, stored: StoredFile) -> bool:
        """The object is there with its size and hash."""
        path = self.path_of(stored.sha256)
        return path.is_file() and path.stat().st_size == stored.size_bytes and sha256_file(path) == stored.sha256

    def check_out(self, stored: StoredFile, target: Path, *, copy: bool = False) -> Path:
        """Make `target` hold the object, verified by sha256 each time: a hard link, or a copy on another file system.

        With `copy` always a copy, for who might write into the file: a link would carry that into the store.

        Raises:
            DataError: the object is missing or altered. StorageError: `target` cannot be written.
        """
        source = self.path_of(stored.sha256)
        if not source.is_file():
            raise DataError(f"The weights {stored.name} (sha256 {stored.sha256}) are missing from the LFS store.", "Run `reef fsck`.")
        if not self.is_whole(stored):
            raise DataError(f"The weights {stored.name} (sha256 {stored.sha256}) were altered on disk.", "Run `reef fsck`.")
        try:
            if target.is_file() and not copy and (target.samefile(source) or sha256_file(target) == stored.sha256):
                return target
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
            try:
                shutil.copyfile(source, temporary) if copy else _link_or_copy(source, temporary)
                os.replace(temporary, target)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(f"Cannot write {target}: {error.strerror}.", "Free disk space or mend the permissions.") from error
        return target

    def objects(self) -> Iterator[tuple[str, Path]]:
        """(sha256, path) of all that is stored."""
        for path in sorted((self.folder / "objects").glob("??/??/*")):
            yield path.name, path

    def remove(self, sha256: str) -> None:
        self.path_of(sha256).unlink(missing_ok=True)

    def remove_temporaries(self) -> None:
        """What a killed writer left. Only under the write lock: no writer is at work then."""
        for path in (self.folder / "tmp").glob(f"{_TEMPORARY_PREFIX}*"):
            path.unlink(missing_ok=True)


def missing_parents(path: Path, root: Path) -> set[Path]:
    """Folders at or below `root` that get a new entry when `path`'s missing parents are made; each needs an fsync."""
    touched: set[Path] = set()
    folder = path.parent
    while folder != root and not folder.exists():
        touched.add(folder.parent)
        folder = folder.parent
    return touched


def _link_or_copy(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EACCES):
            raise
        shutil.copyfile(source, target)

"""Files that are whole or absent: temporary name, write, fsync, rename, fsync of the folder."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from daemon.errors import StorageError

_BLOCK_BYTES = 1 << 20


def fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace `path` by `content`, durably; after a crash it holds the old or the new bytes.

    Raises:
        StorageError: the disk is full, read-only or failing; `path` is as it was.
    """
    data = content.encode() if isinstance(content, str) else content
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        fsync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise StorageError(f"Cannot write {path}: {error.strerror}.", "Free disk space or mend the permissions, then try again.") from error


def sha256_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def fsync_tree(root: Path) -> None:
    """All files below `root`, and its folders."""
    for folder, _, names in os.walk(root):
        for name in names:
            descriptor = os.open(Path(folder) / name, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        fsync_folder(Path(folder))

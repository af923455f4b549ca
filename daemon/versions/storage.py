"""Opening and creating the bare repository, and the edge where the disk's errors become ours."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dulwich.errors import NotGitRepository
from dulwich.file import FileLocked
from dulwich.repo import Repo

from daemon.errors import Busy, DataError, StorageError
from daemon.files import fsync_folder, fsync_tree, write_atomic

_README = """Reef's releases, as a bare git repository.

Look inside with plain git and git-lfs:

    git clone versions.git look && cd look && git log

A branch shows what a scenario serves; `refs/reef/scenarios/<scenario>/` holds the chain (head), candidates that wait
for you (held/) and those that lost (rejected/). Weights lie in lfs/objects. Change nothing here by hand: use `reef`.
"""


@contextmanager
def storing(path: Path) -> Iterator[None]:
    """Map errors of the file system, and of a foreign git at work, to ours."""
    try:
        yield
    except FileLocked as error:
        raise Busy(f"Another git is writing {path}.", "Try again when it is done.") from error
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error.strerror}.", "Free disk space or mend the permissions, then try again.") from error


def open_or_create(path: Path) -> Repo:
    """Raises DataError where `path` is something else, StorageError where it cannot be made."""
    with storing(path):
        if not path.exists():
            _create(path)
        repo = open_repository(path)
        (path / "reef").mkdir(exist_ok=True)
        return repo


def open_repository(path: Path) -> Repo:
    """Raises DataError where `path` is none."""
    try:
        return Repo(str(path))
    except NotGitRepository as error:
        raise DataError(f"{path} is no git repository.", "Move it away, or restore it from a backup.") from error


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with Repo.init_bare(str(temporary), mkdir=True, default_branch=b"default") as repo:
            config = repo.get_config()
            config.set((b"core",), b"fsync", b"all")  # for a foreign git; what Reef writes it syncs itself
            config.set((b"gc",), b"auto", b"0")  # nothing is collected behind our back
            config.set((b"receive",), b"denyNonFastForwards", True)
            config.set((b"receive",), b"denyDeletes", True)
            config.write_to_path()
        for folder in ("lfs/objects", "lfs/tmp", "reef/numbers"):
            (temporary / folder).mkdir(parents=True)
        write_atomic(temporary / "README", _README)
        temporary.chmod(0o700)  # demonstrations and rules hold what the user said
        fsync_tree(temporary)
        try:
            os.rename(temporary, path)
        except OSError:
            if not (path / "HEAD").is_file():
                raise
            return  # another process made it first; ours goes
        fsync_folder(path.parent)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)

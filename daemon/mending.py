"""`fsck --repair`: which other copies there are in a home, in a backup or in a clone, and what SQLite knows of the heads."""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from daemon.backup.archive import Member, Tell, verify
from daemon.errors import DataError, NotFound, ReefError, StorageError
from daemon.experience.check import published_releases
from daemon.experience.reader import Reader
from daemon.paths import Home
from daemon.versions.copies import Clone, Copies, Files
from daemon.versions.repair import Mended, repair
from daemon.versions.repository import Repository

_SPARE_BYTES = 64 << 20


def mend(home: Home, repository: Repository, more: Sequence[Copies] = ()) -> list[Mended]:
    """Mend the releases from what lies in the home, and from `more`, which come first.

    Raises:
        NewerManifest: a newer Reef wrote one; nothing has changed. StorageError, Busy: the disk, another writer.
    """
    with contextlib.ExitStack() as stack:
        aside = [stack.enter_context(contextlib.closing(one)) for one in _aside(home)]
        return repair(repository, [*more, Files([home.loras, home.runs]), *aside], _published(home))


@contextlib.contextmanager
def copies_from(home: Home, path: Path, tell: Tell) -> Iterator[Copies]:
    """What a backup or a clone at `path` offers.

    Raises:
        NotFound: there is nothing. DataError: it is neither. StorageError: there is no room to unpack the backup.
    """
    if not path.exists():
        raise NotFound(f"There is no {path}.", "Name a backup, or a clone of versions.git.")
    if path.is_dir():
        with contextlib.closing(Clone(path)) as clone:
            yield clone
        return
    if not path.is_file():  # a pipe would be waited for without end
        raise DataError(f"{path} is neither a backup nor a clone.", "Name a backup, or a clone of versions.git.")
    stage = home.root / f".repair.{secrets.token_hex(6)}.tmp"
    try:
        stage.mkdir(mode=0o700, parents=True)
        (stage / "versions.git" / "refs").mkdir(parents=True)
        (stage / "versions.git" / "objects").mkdir()
        verify(path, tell, _releases_only(stage, shutil.disk_usage(home.root).free - _SPARE_BYTES))
        with contextlib.closing(Clone(stage / "versions.git", f"the backup {path}")) as clone:
            yield clone
    except OSError as error:
        raise StorageError(f"The backup could not be unpacked: {error.strerror}.", "Free disk space, then try again.") from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _releases_only(stage: Path, room: int) -> Callable[[Member], Callable[[bytes], None] | None]:
    def keep(member: Member) -> Callable[[bytes], None] | None:
        nonlocal room
        if not member.name.startswith("versions.git/"):
            return None
        room -= member.size_bytes
        if room < 0:
            raise StorageError("There is not enough disk space to unpack the backup.", "Free some, then try again.")
        target = stage / member.name
        target.parent.mkdir(parents=True, exist_ok=True)
        stream = target.open("xb")

        def write(block: bytes) -> None:
            if block:
                stream.write(block)
            else:
                stream.close()

        return write

    return keep


def _aside(home: Home) -> Iterator[Clone]:
    """What a restore moved aside."""
    for path in sorted(home.root.glob(f"before-restore-*/{home.versions.name}")):
        with contextlib.suppress(ReefError):
            yield Clone(path, f"{path.parent.name}, which a restore moved aside")


def _published(home: Home) -> Mapping[str, Sequence[str]]:
    """What the operation log knows; nothing where the database cannot be read: the releases do not depend on it."""
    if not home.database.is_file():
        return {}
    reader = Reader(home.database)
    try:
        return published_releases(reader)
    except ReefError:
        return {}
    finally:
        reader.close()

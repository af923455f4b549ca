"""`backup`: one file with all that cannot be made again, while the daemon runs or not.

In it: the experience, the releases with their LoRAs, the settings, the tasks, and what the gate has looked at. Not in it: tokens (a
restore makes new ones), base models (named with their sha256), installed agents, runs, caches, logs, the search index.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from daemon import __version__
from daemon.backup.archive import DATABASE, ArchiveWriter, BackupManifest, Tell, allowed, verify
from daemon.errors import Busy, Conflict, NotFound, StorageError
from daemon.experience.database import open_reader, storage_errors
from daemon.experience.journal import copy_entries, journal_path, unfiled_path
from daemon.experience.unfiled import settle
from daemon.files import fsync_folder
from daemon.paths import Home
from daemon.versions.repository import Repository

_STAGE = ".backup-"
_REFS = ("HEAD", "README", "packed-refs", "refs", "reef")
_CONTENT = ("objects", "lfs/objects")


@dataclass(frozen=True, slots=True)
class Backup:
    path: Path
    manifest: BackupManifest
    size_bytes: int


def make(home: Home, target: Path | None, tell: Tell) -> Backup:
    """Write a backup to `target`: a file that is not there yet, a folder, or None for a dated name in the current folder.

    Raises:
        NotFound: there is nothing to back up. Conflict: the file is there. Busy: another backup is under way. StorageError: the disk.
    """
    if not home.database.is_file() and not home.versions.is_dir():
        raise NotFound(f"There is nothing of Reef's in {home.root}.", "Set REEF_HOME, or begin with: reef init.")
    path = _path(target)
    if path.exists():
        raise Conflict(f"{path} is there already.", "Name another file, or remove it.")
    try:
        with _stage(home) as stage:
            return _write(home, path, stage, tell)
    except OSError as error:
        raise StorageError(
            f"The backup could not be written: {error.strerror or error}.", "Free disk space, or name another place."
        ) from error


def _path(target: Path | None) -> Path:
    name = time.strftime("reef-backup-%Y%m%d-%H%M%S.tar.zst")
    if target is None:
        return Path(name).absolute()
    return (target / name if target.is_dir() else target).absolute()


@contextlib.contextmanager
def _stage(home: Home) -> Iterator[Path]:
    """A folder in the home, on its file system; what a killed backup left goes first."""
    with (home.root / ".backup.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy("Another backup is under way.", "Wait for its end.") from error
        for left in home.root.glob(f"{_STAGE}*.tmp"):
            shutil.rmtree(left, ignore_errors=True)
        stage = home.root / f"{_STAGE}{secrets.token_hex(6)}.tmp"
        stage.mkdir(mode=0o700)
        try:
            yield stage
        finally:
            shutil.rmtree(stage, ignore_errors=True)


def _write(home: Home, path: Path, stage: Path, tell: Tell) -> Backup:
    # The database first: a release that is published in between is in the repository only, and a start adds it to the log.
    schema = _copy_database(home, stage, tell)
    models = _copy_releases(home, stage, tell)
    _copy_rest(home, stage)
    found = sorted(str(file.relative_to(stage)) for file in stage.rglob("*") if file.is_file())
    names = [name for name in found if allowed(name)]
    whole = sum((stage / name).stat().st_size for name in names)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as stream:
            with contextlib.suppress(OSError):  # not every file system has modes
                temporary.chmod(0o600)  # it holds what was said
            writer, done = ArchiveWriter(stream), 0
            for name in names:
                done += writer.add(name, stage / name)
                tell("Writing", done, whole)
            writer.finish(__version__, time.time(), schema, models)
            stream.flush()
            os.fsync(stream.fileno())
        manifest = verify(temporary, lambda what, done, _: tell(what, done, whole))
        _name(temporary, path)
        fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
    return Backup(path, manifest, path.stat().st_size)


def _name(temporary: Path, path: Path) -> None:
    """Give the finished file its name, unless somebody else has made one of it meanwhile."""
    try:
        os.link(temporary, path)
    except FileExistsError as error:
        raise Conflict(f"{path} was made by somebody else meanwhile.", "Name another file.") from error
    except OSError:  # a file system without links, as on many a USB stick
        os.rename(temporary, path)


def _copy_database(home: Home, stage: Path, tell: Tell) -> int:
    """One consistent state of the experience, without what freed pages still hold; its schema version."""
    if not home.database.is_file():
        return 0
    tell("Copying the experience", 0, 0)
    settle(home.database)
    for path in (journal_path(home.database), unfiled_path(journal_path(home.database))):
        if path.is_file():  # a killed daemon's, or another process writes; before the tables, which take up what leaves it
            copy_entries(path, stage / path.name)
    with storage_errors(), contextlib.closing(open_reader(home.database)) as source:
        source.execute("PRAGMA query_only = OFF")
        source.execute("VACUUM INTO ?", (str(stage / DATABASE),))
        version = int(source.execute("PRAGMA user_version").fetchone()[0])
    with contextlib.closing(sqlite3.connect(stage / DATABASE)) as copy:
        copy.execute("UPDATE facts SET value = 'closed' WHERE name = 'state'")
        copy.commit()
    return version


def _copy_releases(home: Home, stage: Path, tell: Tell) -> dict[str, str]:
    """The repository as of now, by hard links: its objects are never changed in place. Returns the base models that it names."""
    if not home.versions.is_dir():
        return {}
    tell("Collecting the releases", 0, 0)
    repository = Repository(home.versions, only_look=True)
    try:
        with repository.writing():
            for name in (*_REFS, *_CONTENT):
                _link(home.versions / name, stage / "versions.git" / name)
            bases = {release.manifest.base for name in repository.scenarios() for release in repository.chain(name)}
    finally:
        repository.close()
    return {base.file or base.model: base.sha256 for base in bases if base.sha256}


def _copy_rest(home: Home, stage: Path) -> None:
    for path in (home.config, home.root / "teacher-spent.json", home.root / "looks", home.tasks):
        _link(path, stage / path.name, copy=True)


def _link(source: Path, target: Path, *, copy: bool = False) -> None:
    """A file, or a folder's files; links and what else is no plain file are left out."""
    if source.is_symlink() or not source.exists():
        return
    if source.is_dir():
        for entry in sorted(source.iterdir()):
            if not entry.name.startswith("tmp_obj_") and not entry.name.endswith(".lock"):
                _link(entry, target / entry.name, copy=copy)
        return
    if not source.is_file():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy or "refs" in source.parts or source.suffix == ".json":
        shutil.copyfile(source, target)
    else:
        try:
            os.link(source, target)
        except OSError:
            shutil.copyfile(source, target)

"""`restore`: a backup into a home, whole or not at all.

It is unpacked and checked beside what is there; then a list of renames is written down, and done. A crash before the list changes
nothing; after it the next start of anything finishes the renames.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from daemon.backup.archive import DATABASE, BackupManifest, Member, Tell, verify
from daemon.errors import Conflict, DataError, NotFound, StorageError
from daemon.experience.journal import damaged_path, journal_path, unfiled_path
from daemon.experience.schema import MIGRATIONS
from daemon.experience.search.file import index_path
from daemon.failpoints import failpoint
from daemon.files import fsync_folder, fsync_tree, write_atomic
from daemon.instance import Instance
from daemon.paths import Home
from daemon.versions.fsck import Severity, fsck
from daemon.versions.repository import Repository

_STAGE, _READY, _ASIDE = ".restore-", "ready.json", "before-restore-"
_SPARE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Restored:
    manifest: BackupManifest
    aside: Path | None  # where what was there lies now


def restore(home: Home, path: Path, tell: Tell, *, force: bool) -> Restored:
    """Put a backup into `home`.

    Args:
        force: move what is there aside, into a folder of the home.

    Raises:
        Conflict: a daemon runs, or there is something and `force` is not set. DataError: the backup is damaged, or of a newer Reef.
        StorageError: the disk is full. In each case nothing has changed.
    """
    if not path.is_file():
        raise NotFound(f"There is no file {path}.", "Name a backup that exists: reef-backup-….tar.zst.")
    with Instance(home):
        finish(home)
        present = [entry for entry in _entries(home) if entry.exists()]
        if any(entry.name in (DATABASE, home.versions.name) for entry in present) and not force:
            raise Conflict(f"There is experience in {home.root} already.", "Name an empty home with REEF_HOME, or move it aside: --force.")
        stage = home.root / f"{_STAGE}{secrets.token_hex(6)}.tmp"
        try:
            manifest = _unpack(home, path, stage, tell)
            _check(stage, manifest, tell)
            aside = home.root / time.strftime(f"{_ASIDE}%Y%m%d-%H%M%S") if present else None
            fsync_tree(stage)
            write_atomic(stage / _READY, json.dumps({"aside": aside.name if aside else None}))
        except OSError as error:
            shutil.rmtree(stage, ignore_errors=True)
            raise StorageError(
                f"The backup could not be unpacked: {error.strerror or error}.", "Free disk space, then try again."
            ) from error
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            raise
        failpoint("restore.ready")
        _move(home, stage)
    return Restored(manifest, aside)


def finish(home: Home) -> None:
    """What a killed restore left: renames that were written down are done, anything else is removed. The home's lock is held."""
    for stage in home.root.glob(f"{_STAGE}*.tmp"):
        if (stage / _READY).is_file():
            _move(home, stage)
        else:
            shutil.rmtree(stage, ignore_errors=True)


def _entries(home: Home) -> list[Path]:
    """What a backup may bring, and what belongs to it."""
    database = home.database
    return [
        database,
        database.with_name(f"{database.name}-wal"),
        database.with_name(f"{database.name}-shm"),
        journal_path(database),
        unfiled_path(journal_path(database)),
        damaged_path(journal_path(database)),
        home.versions,
        home.config,
        home.tasks,
        home.root / "looks",
        home.root / "teacher-spent.json",
    ]


def _unpack(home: Home, path: Path, stage: Path, tell: Tell) -> BackupManifest:
    stage.mkdir(mode=0o700, parents=True)
    room = shutil.disk_usage(home.root).free - _SPARE_BYTES

    def keep(member: Member) -> Callable[[bytes], None]:
        nonlocal room
        room -= member.size_bytes
        if room < 0:
            raise StorageError("There is not enough disk space to unpack the backup.", "Free some, then try again.")
        target = stage / member.name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        stream = target.open("xb")
        target.chmod(0o600)

        def write(block: bytes) -> None:
            if block:
                stream.write(block)
            else:
                stream.close()

        return write

    if any(stage.iterdir()):
        raise StorageError(f"{stage} is not empty.", "Remove it.")
    return verify(path, tell, keep)


def _check(stage: Path, manifest: BackupManifest, tell: Tell) -> None:
    """What was unpacked can serve: a sound database of a schema that is known, releases without a fault."""
    tell("Checking what was restored", 0, 0)
    database = stage / DATABASE
    if database.is_file():
        try:
            with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
                version = int(connection.execute("PRAGMA user_version").fetchone()[0])
                sound = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except sqlite3.Error as error:
            raise DataError(f"The database in the backup cannot be read: {error}.", "Take another copy of it.") from error
        if version > len(MIGRATIONS):
            raise DataError(f"The backup's database has schema {version}; this Reef knows {len(MIGRATIONS)}.", "Update Reef, then restore.")
        if version != manifest.schema_version:
            raise DataError("The database in the backup is not the one that its manifest speaks of.", "Take another copy of it.")
        if sound != "ok":
            raise DataError(f"The database in the backup is damaged: {sound}.", "Take another copy of it.")
    versions = stage / "versions.git"
    if versions.is_dir():
        content = versions.rename(stage / "content.tmp")
        Repository(versions).close()  # a fresh one: its settings are ours, whatever a backup says
        _lay(content, versions)
        shutil.rmtree(content)
        versions.chmod(0o700)
        repository = Repository(versions)
        try:
            errors = [problem for problem in fsck(repository) if problem.severity is Severity.ERROR]
        finally:
            repository.close()
        if errors:
            raise DataError(f"The releases in the backup are damaged: {errors[0].message}", "Take another copy of it.")


def _lay(source: Path, target: Path) -> None:
    for entry in source.iterdir():
        if entry.is_dir():
            (target / entry.name).mkdir(exist_ok=True)
            _lay(entry, target / entry.name)
        else:
            os.replace(entry, target / entry.name)


def _move(home: Home, stage: Path) -> None:
    """What is there goes aside, what was unpacked takes its place; doing it twice changes nothing more."""
    aside_name = json.loads((stage / _READY).read_text())["aside"]
    moved = stage / "moved"
    moved.mkdir(exist_ok=True)
    for entry in _entries(home):
        if (moved / entry.name).exists():
            continue  # done before the crash
        if entry.exists() and aside_name is not None:
            aside = home.root / str(aside_name)
            aside.mkdir(mode=0o700, exist_ok=True)
            os.replace(entry, aside / entry.name)
        (moved / entry.name).touch()
        fsync_folder(moved)
    failpoint("restore.aside")
    for entry in _entries(home):
        staged = stage / entry.name
        if staged.exists():
            os.replace(staged, entry)
            fsync_folder(home.root)
            failpoint("restore.moved")
    for name in (index_path(home.database).name,):
        for suffix in ("", "-wal", "-shm"):
            (home.root / f"{name}{suffix}").unlink(missing_ok=True)
    (stage / _READY).unlink()
    shutil.rmtree(stage, ignore_errors=True)
    fsync_folder(home.root)

"""Opening the database: pragmas, migrations, the check after an unclean stop, and the mapping of SQLite's errors."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from daemon.errors import DataError, StorageError
from daemon.experience.schema import MIGRATIONS

_NETWORK = ("nfs", "cifs", "smb", "fuse.sshfs", "afs", "ceph", "glusterfs", "lustre")
_LARGE_BYTES = 100 << 20  # above it a check is told of at once
_TELL_S = 1.0
_FULL_HINT = "Free disk space or mend the permissions of the home, then try again."


@contextlib.contextmanager
def storage_errors() -> Iterator[None]:
    """Map SQLite's exceptions, so that none leaks out of the store."""
    try:
        yield
    except sqlite3.ProgrammingError:
        raise  # a bug of ours, not a failing disk
    except sqlite3.DatabaseError as error:
        raise map_error(error) from error


def map_error(error: sqlite3.Error) -> StorageError:
    text = str(error)
    hint = "Run `reef fsck`; the last backup lies beside the database." if "malformed" in text or "not a database" in text else _FULL_HINT
    return StorageError(f"The experience database failed: {text}.", hint)


def say_nothing(_: str) -> None:
    """Where nobody waits for what takes long."""


def open_writer(path: Path, say: Callable[[str], None] = say_nothing) -> sqlite3.Connection:
    """The one writing connection: created, checked and migrated.

    Args:
        say: is told, in a few words, what goes on while it takes long.

    Raises:
        StorageError: the folder cannot be written, the file is damaged, or it lies on a network file system.
        DataError: a newer Reef wrote it.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(f"Cannot create {path.parent}: {error.strerror}.", _FULL_HINT) from error
    _refuse_network(path)
    with storage_errors():
        descriptor = _touch(path)
        os.close(descriptor)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=768)
        try:
            _prepare(connection, path, say)
        except BaseException:
            connection.close()
            raise
        return connection


def open_reader(path: Path) -> sqlite3.Connection:
    """A read-only connection; in WAL mode it never waits for the writer nor holds it up."""
    with storage_errors():
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA busy_timeout = 5000")
        connection.execute("PRAGMA query_only = ON")
        connection.execute("PRAGMA cache_size = -2048")  # one a thread; the rest is the system's cache
        return connection


def mark(connection: sqlite3.Connection, state: str) -> None:
    """Remember whether the database is in use ("open") or was closed in order ("closed")."""
    connection.execute("INSERT INTO facts VALUES ('state', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (state,))


def _touch(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)  # sessions are private: no other user may read them
    except OSError as error:
        raise StorageError(f"Cannot write {path}: {error.strerror}.", _FULL_HINT) from error


def _prepare(connection: sqlite3.Connection, path: Path, say: Callable[[str], None]) -> None:
    connection.execute("PRAGMA busy_timeout = 5000")
    connection.execute("PRAGMA page_size = 8192")  # of a new file: bodies of 1 to 4 KB waste half of what they do on pages of 4 KB
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute("PRAGMA temp_store = MEMORY")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > len(MIGRATIONS):
        raise DataError(
            f"{path} was written by a newer Reef (schema {version}; this one knows {len(MIGRATIONS)}).",
            "Update Reef, or point REEF_HOME at another folder.",
        )
    if version:
        _check_if_unclean(connection, path, say)
        if version < len(MIGRATIONS):
            say(f"copying the experience database, then bringing it from schema {version} to {len(MIGRATIONS)}")
            _backup(connection, path, version)
    _migrate(connection, version)
    mark(connection, "open")


def _check_if_unclean(connection: sqlite3.Connection, path: Path, say: Callable[[str], None]) -> None:
    """Table by table, each with its indexes: seconds for a database of a gigabyte."""
    row = connection.execute("SELECT value FROM facts WHERE name = 'state'").fetchone()
    if row is None or row[0] == "closed":
        return
    tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND rootpage > 0 ORDER BY rowid")]
    told = 0.0 if path.stat().st_size > _LARGE_BYTES else time.monotonic()
    for number, table in enumerate(tables, 1):
        if time.monotonic() - told > _TELL_S:
            told = time.monotonic()
            say(f"checking the experience database after an unclean stop, table {number} of {len(tables)}")
        result = connection.execute(f"PRAGMA quick_check({table})").fetchone()[0]
        if result != "ok":
            raise StorageError(f"{path} is damaged: {result}.", "Run `reef fsck`; put a backup of it back, if there is one beside it.")


def _backup(connection: sqlite3.Connection, path: Path, version: int) -> None:
    target = path.with_name(f"{path.name}.schema{version}.backup")
    with contextlib.closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)
    target.chmod(0o600)


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    if version == len(MIGRATIONS):
        return
    from sqlite_utils import Database  # only where a schema is built: it costs a start-up .1 s

    for number, migration in enumerate(MIGRATIONS[version:], version + 1):
        connection.execute("BEGIN IMMEDIATE")
        try:
            migration(Database(connection))
            connection.execute(f"PRAGMA user_version = {number}")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")


def _refuse_network(path: Path) -> None:
    """SQLite's locks do not hold on network file systems."""
    mounts = Path("/proc/mounts")
    if not mounts.exists():
        return
    folder, best, kind = str(path.parent.resolve()) + "/", "", ""
    for line in mounts.read_text(errors="replace").splitlines():
        fields = line.split()
        if len(fields) > 2 and folder.startswith(fields[1].rstrip("/") + "/") and len(fields[1]) >= len(best):
            best, kind = fields[1], fields[2]
    if kind.startswith(_NETWORK):
        raise StorageError(
            f"{path.parent} lies on a network file system ({kind}), where SQLite cannot lock safely.", "Set REEF_HOME to a local disk."
        )

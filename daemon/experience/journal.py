"""The file that receipts wait for: records as they are stored, one behind the other, before the tables take them up.

One write and one sync for all that wait, where a commit of the tables rewrites a dozen pages. The file is emptied once all that it holds
is in the tables. After a crash its entries are filed again from where the tables end; an entry that was cut off had no receipt. One that
was damaged since is passed over: what stands behind it is found again.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from daemon.errors import DataError, StorageError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder, write_atomic

_MAGIC = b"reefjrn1"
_FAMILY = _MAGIC[:-1]
_FRAME = struct.Struct("<QII")  # sequence, length, crc32 of both and of the entry
_MAY_BE_FRAME = re.compile(rb"(?s)(?=.{5}\x00{3}.{3}[\x00-\x3f])")  # a sequence below 2**40, an entry below 1 GiB
_MOST_READ_BYTES = 1 << 30
_HINT = "Free disk space or mend the permissions of the home, then try again."


def journal_path(database: Path) -> Path:
    return database.with_name(f"{database.stem}.journal")


class Journal:
    """Owned by the writer's thread."""

    def __init__(self, path: Path) -> None:
        """Raises StorageError where the file cannot be made. What stands in it stays, until `clear`."""
        self.path = path
        with _errors():
            new = not os.path.lexists(path)
            self._file = _open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
            self._end = os.fstat(self._file).st_size
            os.fchmod(self._file, 0o600)  # it holds what was said, whoever put it there
            if new:
                fsync_folder(path.parent)
        self._torn = False

    @property
    def size_bytes(self) -> int:
        return self._end

    def close(self) -> None:
        os.close(self._file)

    def append(self, entries: Sequence[tuple[int, bytes]]) -> None:
        """Returns when they are on disk, sequence and bytes each. Raises StorageError; none of them is there then."""
        frames = [] if self._end else [_MAGIC]
        for sequence, entry in entries:
            frames += (_frame(sequence, entry), entry)
        data = b"".join(frames)
        with _errors():
            if self._torn:
                self._cut()
            try:
                done = 0
                while done < len(data):
                    done += _write(self._file, memoryview(data)[done:])
                failpoint("admission.journal-written")
                _sync(self._file)
            except OSError:
                self._torn = True  # part of it may stand there: nothing may come behind it
                with contextlib.suppress(OSError):
                    self._cut()
                raise
        self._end += len(data)

    def clear(self) -> None:
        """Forget all. It need not be on disk: a start passes over what the tables hold. Raises StorageError."""
        if self._end:
            with _errors():
                os.ftruncate(self._file, 0)
            self._end = 0

    def _cut(self) -> None:
        os.ftruncate(self._file, self._end)
        self._torn = False


@dataclass(frozen=True, slots=True)
class Damaged:
    """A stretch of the file that is no entry, and was none that a crash had cut off."""

    at: int  # in bytes
    data: bytes


def entries(path: Path) -> Iterator[tuple[int, bytes]]:
    """What stands in the file, sequence and bytes, where it is whole. Raises as `pieces` does."""
    return (one for one in pieces(path) if not isinstance(one, Damaged))


def pieces(path: Path) -> Iterator[tuple[int, bytes] | Damaged]:
    """The same, with what is damaged between them. The last entry may have been cut off by a crash: that is no damage.

    Raises StorageError where it cannot be read, DataError where a newer Reef wrote it.
    """
    with _errors():
        if not os.path.lexists(path):
            return
        with os.fdopen(_open(path, os.O_RDONLY), "rb") as file:
            data = memoryview(file.read(_MOST_READ_BYTES))
    at, last = len(_MAGIC), 0
    if data[:at] != _MAGIC:
        at = 0
        if len(data) >= len(_MAGIC) and data[: len(_FAMILY)] == _FAMILY and _next_frame(data, len(_MAGIC), last) is None:
            hint = f"Update Reef. What {path.name} holds is in no table yet: keep it."
            raise DataError(f"{path} was written by a newer Reef.", hint)
    while at < len(data):
        found = _frame_at(data, at)
        if found is None:
            after = _next_frame(data, at + 1, last)
            if after is None and _is_cut_off(data, at):
                return
            yield Damaged(at, bytes(data[at:after]))
            if after is None:
                return
            at = after
            continue
        sequence, length = found
        yield sequence, bytes(data[at + _FRAME.size : at + _FRAME.size + length])
        last = max(last, sequence)
        at += _FRAME.size + length


def _frame_at(data: memoryview, at: int) -> tuple[int, int] | None:
    """Sequence and length of the whole entry there."""
    if at + _FRAME.size > len(data):
        return None
    sequence, length, checksum = _FRAME.unpack_from(data, at)
    end = at + _FRAME.size + length
    if end > len(data):
        return None
    head = _FRAME.pack(sequence, length, 0)
    return (sequence, length) if checksum == zlib.crc32(data[at + _FRAME.size : end], zlib.crc32(head)) else None


def _next_frame(data: memoryview, at: int, last: int) -> int | None:
    """Where the next whole entry begins, of a sequence above `last`."""
    for found in _MAY_BE_FRAME.finditer(data, at):
        frame = _frame_at(data, found.start())
        if frame is not None and frame[0] > last:
            return found.start()
    return None


def _is_cut_off(data: memoryview, at: int) -> bool:
    """Whether an entry's beginning stands there, or what a file system puts where nothing was written yet."""
    if at < len(_MAGIC):
        return bytes(data) == _MAGIC[: len(data)] or not any(data)
    if len(data) - at < _FRAME.size or not any(data[at:]):
        return True
    _, length, _ = _FRAME.unpack_from(data, at)
    return at + _FRAME.size + int(length) > len(data)


def _frame(sequence: int, entry: bytes) -> bytes:
    head = _FRAME.pack(sequence, len(entry), 0)
    return _FRAME.pack(sequence, len(entry), zlib.crc32(entry, zlib.crc32(head)))


def _write(file: int, data: memoryview) -> int:
    return os.write(file, data)


def _sync(file: int) -> None:
    if sys.platform == "darwin":
        os.fsync(file)
    else:
        os.fdatasync(file)


def _open(path: Path, flags: int) -> int:
    """Raises StorageError for what is no plain file: bytes could go elsewhere, or whoever reads them wait for ever."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise StorageError(f"{path} is a link, a folder or a device, and no file of Reef's.", "Move it away, then start again.")
    return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)


@contextlib.contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StorageError(f"The experience journal failed: {error.strerror}.", _HINT) from error


def set_aside(path: Path, refused: Sequence[tuple[int, bytes]]) -> None:
    """Keep entries of the journal at `path` that the tables did not take, for the next start. Raises StorageError."""
    aside = Journal(unfiled_path(path))
    try:
        aside.append(refused)
    finally:
        aside.close()


def replace_aside(path: Path, kept: Sequence[tuple[int, bytes]]) -> None:
    """Let nothing but `kept` be what was set aside; after a crash it is that or what it was. Raises StorageError."""
    aside = unfiled_path(path)
    if kept:
        write_atomic(aside, b"".join([_MAGIC, *(part for one in kept for part in (_frame(*one), one[1]))]), 0o600)
    elif os.path.lexists(aside):
        with _errors():
            aside.unlink()
            fsync_folder(aside.parent)


def copy_entries(path: Path, target: Path) -> None:
    """Write what is whole in a journal into a new one; its owner may be at work. Raises StorageError, and DataError as `pieces` does."""
    copy = Journal(target)
    try:
        for one in entries(path):
            copy.append([one])
    finally:
        copy.close()


def unfiled_path(path: Path) -> Path:
    """Where `set_aside` keeps them."""
    return path.with_name(f"{path.name}.unfiled")


def keep_damaged(path: Path, stretch: Damaged) -> None:
    """Keep what could not be read, durably, before it leaves the journal at `path`. Raises StorageError."""
    with _errors():
        file = _open(damaged_path(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        with os.fdopen(file, "wb") as stream:
            stream.write(stretch.data)
            stream.flush()
            os.fsync(stream.fileno())
        fsync_folder(path.parent)


def damaged_path(path: Path) -> Path:
    """Where `keep_damaged` keeps it."""
    return path.with_name(f"{path.name}.damaged")

"""The file that receipts wait for: records as they are stored, one behind the other, before the tables take them up.

One write and one sync for all that wait, where a commit of the tables rewrites a dozen pages. The file is emptied once all that it holds
is in the tables. After a crash its entries are filed again from where the tables end; an entry that was cut off had no receipt.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from daemon.errors import StorageError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder

_MAGIC = b"reefjrn1"
_FRAME = struct.Struct("<QII")  # sequence, length, crc32 of both and of the entry
_HINT = "Free disk space or mend the permissions of the home, then try again."


def journal_path(database: Path) -> Path:
    return database.with_name(f"{database.stem}.journal")


class Journal:
    """Owned by the writer's thread."""

    def __init__(self, path: Path) -> None:
        """Raises StorageError where the file cannot be made. What stands in it stays, until `clear`."""
        self.path = path
        with _errors():
            new = not path.exists()
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            self._end = os.fstat(self._file).st_size
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


def entries(path: Path) -> Iterator[tuple[int, bytes]]:
    """What stands in the file, sequence and bytes, up to the first that is not whole. Raises StorageError."""
    with _errors():
        if not path.exists():
            return
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                return
            left = path.stat().st_size - len(_MAGIC)
            while left >= _FRAME.size:
                frame = file.read(_FRAME.size)
                if len(frame) < _FRAME.size:
                    return
                sequence, length, _ = _FRAME.unpack(frame)
                left -= _FRAME.size + length
                entry = file.read(length) if left >= 0 else b""
                if left < 0 or frame != _frame(sequence, entry):
                    return
                yield sequence, entry


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


def unfiled_path(path: Path) -> Path:
    """Where `set_aside` keeps them."""
    return path.with_name(f"{path.name}.unfiled")

"""The archive: a tar of plain files, compressed with zstd, whose last member is a manifest with every file's sha256.

Only names of a short list go in, and only such come out: no links, no absolute or parent paths, nothing that a program would run.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import re
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, TypeAlias

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from daemon.errors import DataError

FORMAT: Final = 1
MANIFEST: Final = "manifest.json"
DATABASE: Final = "experience.db"
Tell: TypeAlias = Callable[[str, int, int], None]
"""Told what goes on: a word, how many bytes are done, of how many (0: not known)."""

_ALLOWED = re.compile(
    r"experience\.(?:db|journal(?:\.unfiled)?)|config\.yaml|teacher-spent\.json|looks/[a-z0-9-]{1,63}\.jsonl|tasks/[^/].{0,300}"
    r"|versions\.git/(?:HEAD|README|packed-refs|refs/[A-Za-z0-9/._-]{1,200}|reef/tombstones\.json|reef/numbers/[a-z0-9-]{1,63}"
    r"|objects/[0-9a-f]{2}/[0-9a-f]{38}|objects/pack/pack-[0-9a-f]{40}\.(?:pack|idx)|lfs/objects/[0-9a-f]{2}/[0-9a-f]{2}/[0-9a-f]{64})"
)
_MOST_FILES = 2_000_000
_LARGEST_MANIFEST_BYTES = 512 << 20
_BLOCK_BYTES = 1 << 20
_LARGEST_HEADER_BYTES = 64 << 10
_DESCRIBING = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)


class StoredHash(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")
    size_bytes: int = Field(ge=0)


class BackupManifest(BaseModel):
    """What a backup holds, and what it was made of."""

    model_config = ConfigDict(frozen=True)

    format: int
    version: str
    """Reef's."""
    created_at: float
    schema_version: int
    """Of the database; 0: there is none."""
    models: dict[str, str] = Field(default_factory=dict)
    """File name → sha256 of the base models that the releases need; the files themselves are not in the backup."""
    files: dict[str, StoredHash]

    @property
    def size_bytes(self) -> int:
        return sum(stored.size_bytes for stored in self.files.values())


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an archive that is being read; read `stream` before the next one."""

    name: str
    size_bytes: int
    stream: IO[bytes]


def allowed(name: str) -> bool:
    """Whether a file of this name may be in a backup."""
    parts = name.split("/")
    plain = "\\" not in name and "\0" not in name and len(name) <= 400 and all(part not in ("", ".", "..") for part in parts)
    return plain and _ALLOWED.fullmatch(name) is not None


class ArchiveWriter:
    """Adds files, hashing them on the way; `finish` writes the manifest."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._packer = zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(stream, closefd=False)
        self._tar = tarfile.open(fileobj=self._packer, mode="w|", format=tarfile.PAX_FORMAT)  # noqa: SIM115 - closed by `finish`
        self._files: dict[str, StoredHash] = {}

    def add(self, name: str, path: Path) -> int:
        """Returns the file's size. Raises OSError, and DataError for a name that does not belong into a backup."""
        if not allowed(name):
            raise DataError(f"{name} does not belong into a backup.", "Move it out of Reef's home.")
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = size, 0o600, 0
            hashing = _Hashing(stream)
            self._tar.addfile(info, hashing)
        self._files[name] = StoredHash(sha256=hashing.digest.hexdigest(), size_bytes=size)
        return size

    def finish(self, version: str, created_at: float, schema_version: int, models: dict[str, str]) -> BackupManifest:
        manifest = BackupManifest(
            format=FORMAT, version=version, created_at=created_at, schema_version=schema_version, models=models, files=self._files
        )
        data = manifest.model_dump_json(indent=1).encode()
        info = tarfile.TarInfo(MANIFEST)
        info.size, info.mode = len(data), 0o600
        self._tar.addfile(info, io.BytesIO(data))
        self._tar.close()
        self._packer.close()  # type: ignore[no-untyped-call]
        return manifest


class _Hashing(io.RawIOBase):
    """Passes a file on and hashes it."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.digest = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        data = self._stream.read(size)
        self.digest.update(data)
        return data


class _Header(tarfile.TarInfo):
    """A member's header. `tarfile` takes what describes the next member into memory, however long its header says that it is."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> _Header:
        header = super().frombuf(buf, encoding, errors)
        if header.type == tarfile.GNUTYPE_SPARSE or (header.type in _DESCRIBING and header.size > _LARGEST_HEADER_BYTES):
            raise tarfile.ReadError("it holds a header that no backup of Reef has")
        return header


@contextlib.contextmanager
def foreign(path: Path) -> Iterator[None]:
    """What the archive's libraries raise for a file that is none, as a `DataError`."""
    try:
        yield
    except (tarfile.TarError, zstandard.ZstdError, EOFError, ValueError) as error:
        raise DataError(f"{path} is no whole backup: {error}.", "Take another copy of it.") from error


def read_members(path: Path) -> Iterator[Member]:
    """Every member in order, the manifest last.

    Raises:
        DataError: it is no backup, is cut off, or holds what no backup holds.
    """
    with foreign(path), path.open("rb") as stream:
        unpacked = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=False)
        with tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Header) as tar:
            seen: set[str] = set()
            for info in tar:
                name = info.name
                if (
                    not info.isreg()
                    or info.issparse()
                    or (name != MANIFEST and not allowed(name))
                    or name in seen
                    or len(seen) > _MOST_FILES
                ):
                    raise DataError(f"{path} holds {name[:100]!r}, which no backup of Reef's does.", "Nothing was restored.")
                seen.add(name)
                content = tar.extractfile(info)
                if content is None:
                    raise DataError(f"{path} is damaged at {name[:100]!r}.", "Take another copy of it.")
                yield Member(name, info.size, content)
        if len(unpacked.read(_BLOCK_BYTES)) == _BLOCK_BYTES:  # to its end: only there zstd's own checksum is compared
            raise DataError(f"{path} goes on after its end.", "Take another copy of it.")


def verify(path: Path, tell: Tell, keep: Callable[[Member], Callable[[bytes], None] | None] | None = None) -> BackupManifest:
    """Read the whole archive and compare every file with the manifest.

    Args:
        keep: called for each file; what it returns is given the file's bytes, block by block, and once more b"" at its end.
            None: that file is only checked.

    Raises:
        DataError: a file is missing, altered or too much, or the format is newer.
    """
    found: dict[str, StoredHash] = {}
    manifest: BackupManifest | None = None
    done = 0
    for member in read_members(path):
        if manifest is not None:
            raise DataError(f"{path} goes on after its manifest.", "Nothing was restored.")
        if member.name == MANIFEST:
            manifest = _read_manifest(member, path)
            continue
        sink = keep(member) if keep is not None else None
        digest = hashlib.sha256()
        with foreign(path):
            while block := member.stream.read(_BLOCK_BYTES):
                digest.update(block)
                done += len(block)
                if sink is not None:
                    sink(block)
                tell("Checking" if keep is None else "Restoring", done, 0)
        if sink is not None:
            sink(b"")
        found[member.name] = StoredHash(sha256=digest.hexdigest(), size_bytes=member.size_bytes)
    if manifest is None:
        raise DataError(f"{path} has no manifest: it was cut off.", "Take another copy of it.")
    if found != manifest.files:
        wrong = next(name for name in sorted({*found, *manifest.files}) if found.get(name) != manifest.files.get(name))
        raise DataError(f"{path} is damaged: {wrong} is not what its manifest says.", "Take another copy of it.")
    return manifest


def _read_manifest(member: Member, path: Path) -> BackupManifest:
    if member.size_bytes > _LARGEST_MANIFEST_BYTES:
        raise DataError(f"The manifest of {path} is too large.", "Take another copy of it.")
    try:
        manifest = BackupManifest.model_validate_json(member.stream.read())
    except ValidationError as error:
        raise DataError(f"The manifest of {path} is damaged.", "Take another copy of it.") from error
    if manifest.format > FORMAT:
        raise DataError(f"{path} was made by a newer Reef ({manifest.version}).", "Update Reef, then restore.")
    return manifest

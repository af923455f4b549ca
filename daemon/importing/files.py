"""Values out of JSON and JSONL files: bounded, regular files only, nothing followed, nothing fetched."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from daemon import json_text
from daemon.errors import DataError, NotFound
from daemon.records import JSON

MAX_LINE_BYTES = 16 << 20
MAX_DOCUMENT_BYTES = 64 << 20
MAX_FILES = 20_000
MAX_DEPTH = 16
_MAX_BRACKETS = 500_000
_SUFFIXES = (".jsonl", ".ndjson", ".json")
_PACKED = (b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"BZh", b"\xfd7zXZ")
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Found:
    where: str  # file:line
    value: JSON


@dataclass(frozen=True, slots=True)
class Skipped:
    """What could not be read, and why."""

    where: str
    reason: str


def find_files(paths: Sequence[Path]) -> Iterator[Path | Skipped]:
    """The files that are named, and those in folders that are named: `.jsonl`, `.ndjson`, `.json`, in order; links are not followed.

    Raises:
        NotFound: a path is not there.
    """
    left = MAX_FILES
    for path in paths:
        if not path.exists():
            raise NotFound(f"There is no {path}.", "Name a file or a folder; - reads what is piped in.")
        if not path.is_dir():
            yield path
            continue
        for found in _walk(path, 0):
            if left == 0:
                yield Skipped(str(path), f"more than {MAX_FILES:,} files")
                break
            left -= 1
            yield found


def read_file(path: Path, on_bytes: Callable[[int], None]) -> Iterator[Found | Skipped]:
    """Every value in a file: one a line, or a JSON document, whose elements count one by one where it is an array.

    Args:
        on_bytes: called with how many bytes more were read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe without a writer would wait for ever
        with os.fdopen(descriptor, "rb") as stream:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                yield Skipped(str(path), "not a regular file")
                return
            size = os.fstat(descriptor).st_size
            if path.suffix.lower() == ".json" and size <= MAX_DOCUMENT_BYTES:
                data = stream.read(MAX_DOCUMENT_BYTES + 1)
                found = _document(str(path), data)
                if found is not None:
                    on_bytes(len(data))
                    yield from found
                    return
                stream.seek(0)
            yield from read_lines(stream, str(path), on_bytes)
    except OSError as error:
        yield Skipped(str(path), f"cannot be read: {error.strerror}")


def read_lines(stream: BinaryIO, name: str, on_bytes: Callable[[int], None]) -> Iterator[Found | Skipped]:
    """Every line's value. A line that is none is skipped, and reading goes on behind it."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        where = f"{name}:{number}"
        on_bytes(len(line))
        if number == 1:
            if line.startswith(_PACKED):
                yield Skipped(name, "compressed; unpack it first")
                return
            line = line.removeprefix(_BOM)
        if len(line) > MAX_LINE_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(1 << 20)
                on_bytes(len(line))
            yield Skipped(where, f"the line is longer than {MAX_LINE_BYTES >> 20} MiB")
        elif line.strip():
            try:
                yield Found(where, parse(line))
            except DataError as error:
                yield Skipped(where, error.message)


def parse(data: bytes) -> JSON:
    """Raises `DataError`: no JSON, nested too deeply, or more arrays and objects than any conversation has."""
    if data.count(b"[") + data.count(b"{") > _MAX_BRACKETS:
        raise DataError("it holds more arrays and objects than any conversation")
    try:
        return json_text.parse(data)
    except UnicodeDecodeError:
        raise DataError("it is not UTF-8 text") from None
    except ValueError as error:
        raise DataError(f"it is not valid JSON: {error}") from None


def _document(name: str, data: bytes) -> list[Found | Skipped] | None:
    """None: it is no JSON document; perhaps its lines are."""
    if data.startswith(_PACKED):
        return [Skipped(name, "compressed; unpack it first")]
    data = data.removeprefix(_BOM)
    try:
        value = parse(data)
    except DataError as error:
        return None if _is_value(data.lstrip().partition(b"\n")[0]) else [Skipped(name, error.message)]
    if isinstance(value, list):
        return [Found(f"{name}[{index}]", item) for index, item in enumerate(value)]
    return [Found(name, value)]


def _is_value(line: bytes) -> bool:
    try:
        parse(line)
    except DataError:
        return False
    return True


def _walk(folder: Path, depth: int) -> Iterator[Path | Skipped]:
    try:
        with os.scandir(folder) as entries:
            found = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        yield Skipped(str(folder), f"cannot be read: {error.strerror}")
        return
    for entry in found:
        if entry.is_symlink():
            continue
        if entry.is_dir(follow_symlinks=False):
            if depth < MAX_DEPTH:
                yield from _walk(Path(entry.path), depth + 1)
        elif entry.is_file(follow_symlinks=False) and entry.name.lower().endswith(_SUFFIXES):
            yield Path(entry.path)

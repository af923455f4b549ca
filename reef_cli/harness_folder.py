"""A harness as a folder: read strictly, so that nothing but plain texts of it is taken, and written where nothing stands yet."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from daemon.errors import Conflict, DataError, NotFound, StorageError
from daemon.files import write_atomic
from daemon.harness_tree import MAX_FILE_BYTES, MAX_FILES, check_path

NOTE = ".reef-harness.json"
"""Says of which scenario and release the folder is; no part of the harness."""
_LEFT_OUT = frozenset({NOTE, ".git", ".DS_Store"})


def read(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Path → text, and the paths whose executable mode is not kept.

    Raises:
        NotFound: there is no such folder. DataError: a link, a file that is none of text, too many or too large ones; names it.
    """
    if not folder.is_dir():
        raise NotFound(f"{folder} is no folder.", "Write what serves into one: reef harness show FOLDER")
    files: dict[str, str] = {}
    modes: list[str] = []
    for path, kept in _walk(folder):
        if len(files) == MAX_FILES:
            raise DataError(f"{folder} holds more than {MAX_FILES} files.", "Leave out what no agent reads.")
        check_path(path)
        files[path] = _text(folder / path, path)
        if kept.st_mode & 0o111:
            modes.append(path)
    return files, modes


def note_of(folder: Path) -> tuple[str, str]:
    """The scenario and the release that the folder was written from; empty where it does not say. Raises DataError."""
    try:
        said = json.loads((folder / NOTE).read_text(encoding="utf-8"))
        return str(said["scenario"]), str(said["release_id"])
    except FileNotFoundError:
        return "", ""
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / NOTE} is damaged.", "Remove it: the folder then replaces all that serves.") from error


def write(folder: Path, files: Mapping[str, str], scenario: str, release_id: str) -> None:
    """Raises Conflict where something stands, DataError for a path that leaves the folder, StorageError."""
    if folder.is_symlink() or (folder.exists() and (not folder.is_dir() or any(folder.iterdir()))):
        raise Conflict(f"{folder} is there already, and not empty.", "Name a new folder.")
    for path in files:
        check_path(path)
    try:
        for path, text in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            write_atomic(folder / path, text)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / NOTE, json.dumps({"scenario": scenario, "release_id": release_id}) + "\n")
    except OSError as error:
        raise StorageError(f"{folder} could not be written: {error.strerror or error}.", "Make room, or name another folder.") from error


def _walk(folder: Path) -> list[tuple[str, os.stat_result]]:
    """Plain files, sorted, by path below `folder`. Raises DataError for anything else."""
    found: list[tuple[str, os.stat_result]] = []
    waiting = [""]
    while waiting:
        below = waiting.pop()
        for entry in os.scandir(folder / below):
            path = f"{below}{entry.name}"
            if entry.name in _LEFT_OUT:
                continue
            kind = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(kind.st_mode):
                waiting.append(f"{path}/")
            elif not stat.S_ISREG(kind.st_mode):
                what = "a link" if stat.S_ISLNK(kind.st_mode) else "no plain file"
                raise DataError(f"{path} is {what}.", "The harness holds plain files; put a copy there.")
            else:
                found.append((path, kind))
            if len(found) > MAX_FILES or len(waiting) > MAX_FILES:
                raise DataError(f"{folder} holds more than {MAX_FILES} files or folders.", "Leave out what no agent reads.")
    return sorted(found)


def _text(file: Path, path: str) -> str:
    """Raises DataError for what is too large, or no UTF-8; names the line."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.", "Make it readable, or leave it out.") from error
    with os.fdopen(descriptor, "rb") as stream:
        data = stream.read(MAX_FILE_BYTES + 1)
    if len(data) > MAX_FILE_BYTES:
        raise DataError(f"{path} is larger than {MAX_FILE_BYTES // 1024} KiB.", "Split it, or leave out what an agent need not read.")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise DataError(
            f"{path}:{line}: the byte 0x{data[error.start]:02x} is no UTF-8.", "Save it as UTF-8 text, or leave it out."
        ) from error

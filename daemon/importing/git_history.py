"""A git history as pairs: what a commit changed, and the message that somebody wrote for it.

Read through dulwich: nothing that the repository configures is run (no hooks, filters, textconv or external diff), and nothing is
fetched. Files, lines and commits are bounded, and so is the memory that a hostile object can ask for.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

from dulwich.diff_tree import TreeChange, tree_changes
from dulwich.errors import (
    ApplyDeltaError,
    ChecksumMismatch,
    FileFormatException,
    MissingCommitError,
    NotGitRepository,
    ObjectMissing,
    WrongObjectException,
)
from dulwich.objects import Blob, Commit, TreeEntry
from dulwich.refs import SymrefLoop
from dulwich.repo import Repo

from daemon.errors import DataError
from daemon.importing.conversation import ImportedSession, ImportedTurn

COMMITS = 1000
"""How many of the newest commits are read unless somebody says otherwise."""
PROMPT = "Write a commit message for this change:"
_MAX_FILES = 60
_MAX_BLOB_BYTES = 256 << 10
_MAX_LINES = 4000
_SHOWN_LINES = 120
_SHOWN_CHARACTERS = 4000
_LINE_CHARACTERS = 200
_CONTEXT = 3
_MEMORY_BYTES = 2 << 30
_MALFORMED = (FileFormatException, ChecksumMismatch, ObjectMissing, MissingCommitError, WrongObjectException, ApplyDeltaError, SymrefLoop)
_MISREAD = (KeyError, ValueError, OSError, AssertionError, TypeError, AttributeError, IndexError, ArithmeticError, EOFError, RecursionError)
"""What dulwich raises besides where it meets something that is missing or was never written by git."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """One text file. `lines` are those of a unified diff, `@@` lines included."""

    path: str
    added: int
    removed: int
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommitPair:
    id: str
    message: str  # as it was written, without blank lines around it
    at: float  # when it was written, seconds since the epoch
    files: tuple[FileChange, ...]

    @property
    def subject(self) -> str:
        return self.message.partition("\n")[0].strip()


def read_commits(folder: Path, limit: int = COMMITS) -> Iterator[CommitPair]:
    """The newest `limit` commits of the branch that is checked out, oldest first; merges, first commits and changes without text are left.

    Raises:
        DataError: no repository, or one that is damaged or incomplete.
    """
    if not folder.is_dir():
        raise DataError(f"{folder} cannot be read: there is no such folder.")
    _refuse_devices(folder)
    try:
        with _bounded_memory(), contextlib.closing(Repo.discover(str(folder))) as repository:
            newest = [entry.commit for entry in repository.get_walker(include=[repository.head()], max_entries=limit)]
            while newest:
                pair = _pair(repository, newest.pop())
                if pair is not None:
                    yield pair
    except NotGitRepository as error:
        raise DataError(f"{folder} cannot be read: it is no git repository.") from error
    except (MemoryError, zlib.error) as error:
        raise DataError(f"{folder} cannot be read: it holds an object that is damaged or far too large.") from error
    except (*_MALFORMED, *_MISREAD) as error:
        raise DataError(f"{folder} cannot be read: its history is empty, incomplete or damaged ({type(error).__name__}).") from error


def sessions_of(folder: Path, limit: int = COMMITS) -> Iterator[ImportedSession]:
    """Every pair as a session of one turn, scored good: it is what its author wants such a message to be. Raises `DataError`."""
    for pair in read_commits(folder, limit):
        turn = ImportedTurn(
            ({"role": "user", "content": f"{PROMPT}\n\n{change_text(pair)}"},),
            {"role": "assistant", "content": pair.message},
            created_at=pair.at,
            finish_reason="stop",
            score=1.0,
        )
        yield ImportedSession((turn,), f"git-{pair.id}", tags={"commit": pair.id})


def change_text(pair: CommitPair) -> str:
    """The files with their counts, then the changed lines, as many as a prompt can bear."""
    parts = [f"{file.path} (+{file.added} -{file.removed})" for file in pair.files]
    shown, characters, left = 0, 0, 0
    for file in pair.files:
        parts.append(f"--- {file.path}")
        for line in file.lines:
            if shown >= _SHOWN_LINES or characters + len(line) > _SHOWN_CHARACTERS:
                left += 1
                continue
            shown, characters = shown + 1, characters + len(line)
            parts.append(line)
    if left:
        parts.append(f"… and {left} more lines")
    return "\n".join(parts)


def _pair(repository: Repo, commit: Commit) -> CommitPair | None:
    message = commit.message.decode("utf-8", "replace").strip()
    if len(commit.parents) != 1 or not message:
        return None
    parent = repository[commit.parents[0]]
    if not isinstance(parent, Commit):
        return None
    files: list[FileChange] = []
    for number, change in enumerate(tree_changes(repository.object_store, parent.tree, commit.tree)):
        if number == _MAX_FILES:
            return None
        file = _file(repository, change)
        if file is not None:
            files.append(file)
    return CommitPair(commit.id.decode(), message, float(commit.author_time), tuple(files)) if files else None


def _file(repository: Repo, change: TreeChange) -> FileChange | None:
    """None for what is no text, unchanged in its content, or too large to show."""
    old, new = change.old, change.new
    named = new if new is not None and new.path is not None else old
    before, after = _lines(repository, old), _lines(repository, new)
    if named is None or before is None or after is None or before == after:
        return None
    lines, added, removed = _unified(before, after)
    return FileChange(named.path.decode("utf-8", "replace"), added, removed, tuple(lines))


def _lines(repository: Repo, entry: TreeEntry | None) -> list[str] | None:
    if entry is None or entry.sha is None:
        return []
    if entry.mode is None or entry.mode & 0o170000 != 0o100000:  # links and submodules are no text
        return None
    blob = repository[entry.sha]
    if not isinstance(blob, Blob) or len(blob.data) > _MAX_BLOB_BYTES or b"\0" in blob.data[:8000]:
        return None
    lines = blob.data.decode("utf-8", "replace").splitlines()
    return lines if len(lines) <= _MAX_LINES else None


def _unified(before: list[str], after: list[str]) -> tuple[list[str], int, int]:
    """The lines of a unified diff, and how many were added and removed. What both have at start and end is cut off first: it is most."""
    start, end = 0, 0
    shortest = min(len(before), len(after))
    while start < shortest and before[start] == after[start]:
        start += 1
    while end < shortest - start and before[-1 - end] == after[-1 - end]:
        end += 1
    start, end = max(0, start - _CONTEXT), max(0, end - _CONTEXT)
    old, new = before[start : len(before) - end], after[start : len(after) - end]
    lines: list[str] = []
    added = removed = 0
    for group in SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT):
        first, last = group[0], group[-1]
        lines.append(f"@@ -{start + first[1] + 1},{last[2] - first[1]} +{start + first[3] + 1},{last[4] - first[3]} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += [f" {line[:_LINE_CHARACTERS]}" for line in old[old_from:old_to]]
                continue
            lines += [f"-{line[:_LINE_CHARACTERS]}" for line in old[old_from:old_to]]
            lines += [f"+{line[:_LINE_CHARACTERS]}" for line in new[new_from:new_to]]
            removed, added = removed + old_to - old_from, added + new_to - new_from
    return lines, added, removed


def _refuse_devices(folder: Path) -> None:
    """Raises `DataError` where a file of the repository is a pipe or a device: opening one waits for ever, or reads without end."""
    places = (folder.absolute(), *folder.absolute().parents)
    control = next((found for place in places for found in (place / ".git", place) if os.path.lexists(found / "HEAD")), None)
    if control is None:
        return
    for parent, _, names in os.walk(control):
        for name in names:
            path = os.path.join(parent, name)
            with contextlib.suppress(OSError):
                kind = os.stat(path).st_mode
                if stat.S_ISFIFO(kind) or stat.S_ISCHR(kind) or stat.S_ISBLK(kind):
                    raise DataError(f"{folder} cannot be read: {path} is no regular file.")


@contextlib.contextmanager
def _bounded_memory() -> Iterator[None]:
    """A few bytes of a compressed object can ask for gigabytes: this process gets no more than a bounded addition meanwhile."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = _data_bytes() + _MEMORY_BYTES
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit if soft == resource.RLIM_INFINITY else min(limit, soft), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int:
    """What this process has by now; where that cannot be known, a round number."""
    try:
        with open("/proc/self/status", "rb") as status:
            for line in status:
                if line.startswith(b"VmData:"):
                    return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass
    return 1 << 30

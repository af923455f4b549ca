"""The one way in which an agent's files are laid down and taken away.

Order, so that a crash at any point leaves the old files or completes the new ones: every file is written beside (`staging/`) and synced →
the journal names them, durably → each is renamed into its place, what the last installation wrote and this one does not is removed,
`installed.json` is replaced → the journal goes. Whoever opens the place next finishes what the journal names, or throws away what it does
not. Links are never followed, and a file that Reef did not write is never replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from daemon.errors import Conflict, DataError, StorageError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder, sha256_file, write_atomic
from daemon.harness.install_journal import Journal, read_journal, write_journal
from daemon.harness.installed import MANIFEST, TREE, Manifest, read_manifest
from daemon.harness_tree import MAX_FILE_BYTES, MAX_FILES, check_path

AGENT: Final = "agent"
JOURNAL: Final = "journal.json"
"""There while an installation is under way, or was interrupted."""
_STAGING = "staging"
LEFT_ALONE = frozenset({"node_modules", ".git", "__pycache__", ".system"})  # the last: skills that codex brings along


@dataclass(frozen=True, slots=True)
class Content:
    """One file to write."""

    text: str
    mode: int = 0o600  # what an agent is told is its user's alone

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()


class Place:
    """An installed agent's folder, `agents/<name>` of Reef's home, while nobody else writes to it."""

    def __init__(self, home: Path) -> None:
        self.home = home

    def present(self, path: str) -> str | None:
        """The text of `path` below `agent/`. Raises DataError for a link, a folder, or text that is no UTF-8."""
        return _read(self.home, f"{AGENT}/{path}")

    def current(self, reads: Collection[str]) -> dict[str, str]:
        """Path below `agent/` → text, of the files and folders (with a slash at the end) that `reads` names.

        Raises:
            DataError: too many or too large files, a link, or text that is no UTF-8; names it.
        """
        found: dict[str, str] = {}
        for path in _walk(self.home / AGENT, reads):
            text = self.present(path)
            if text is not None:
                found[path] = text
            if len(found) > MAX_FILES:
                message = f"{self.home / AGENT} holds more than {MAX_FILES} harness files."
                raise DataError(message, "Remove files that no agent reads, then try again.")
        return found

    def manifest(self) -> Manifest | None:
        """Raises DataError."""
        return read_manifest(self.home)

    def foreign(self, files: Mapping[str, Content]) -> list[str]:
        """Those of `files` that would replace what Reef did not write, or what somebody changed since."""
        manifest = self.manifest()
        known = manifest.files if manifest else {}
        shared = frozenset(manifest.shared) if manifest else frozenset()
        found: list[str] = []
        for path, content in files.items():
            there = self.home / path
            if path in shared or not there.exists():
                continue
            actual = sha256_file(there)
            if actual != content.sha256 and actual != known.get(path):
                found.append(path)
        return sorted(found)

    def check(self, files: Mapping[str, Content]) -> None:
        """Whether `files` can lie here. Raises DataError for a path that leaves the place, Conflict for a link or a folder in the way."""
        for path, content in files.items():
            check_path(path)
            _check_place(self.home, path)
            try:
                content.text.encode()
            except UnicodeEncodeError as error:
                raise DataError(f"{path} would hold half a character, which is no text.", "Mend the harness.") from error

    def lay_down(
        self, files: Mapping[str, Content], manifest: Manifest, replace: Collection[str] = (), keep: Collection[str] = ()
    ) -> Manifest:
        """Put `files` (paths relative to the place) there, whole or not at all, and remove what the last installation wrote beside them.

        Args:
            manifest: of this installation; its `files` are filled in here.
            replace: paths that may be replaced though they were changed by hand: their text is safe elsewhere. A shared file always may.
            keep: paths that stay as they are, and count as changed by hand from what `files` says.

        Raises:
            Conflict: a path is a link or a folder, or a file that is not ours; nothing has changed.
            StorageError: the disk; what was there still works, or is completed by the next installation.
        """
        self.check(files)
        before = {path: self._digest(path) for path in files}  # first: whatever is changed from now on is changed by somebody else
        allowed = {*replace, *keep, *manifest.shared}
        if refused := [path for path in self.foreign(files) if path not in allowed]:
            raise Conflict(
                f"{', '.join(str(self.home / path) for path in refused)}: not as Reef wrote it, so it stays.",
                "Move it away, or take its changes over: `reef update`",
            )
        last, digests = self.manifest(), {path: files[path].sha256 for path in sorted(files)}
        gone = {
            path: digest
            for path, digest in sorted((last.files if last else {}).items())
            if path not in files and self._may_go(path, digest)
        }
        files = {path: content for path, content in files.items() if path not in keep}
        complete = manifest.model_copy(update={"files": digests})
        try:
            self._stage(files)
            failpoint("install.staged")
            steps = {path: (index, content.sha256, before[path]) for index, (path, content) in enumerate(files.items())}
            write_journal(self.home / JOURNAL, Journal(steps, gone, complete.model_dump_json(indent=1)))
            failpoint("install.journal-written")
        except OSError as error:
            raise StorageError(f"Cannot write {self.home}: {error.strerror}.", "Free disk space or mend the permissions.") from error
        late = self.recover()
        if written := [path for path in late if path in manifest.shared]:
            message = f"{', '.join(str(self.home / path) for path in written)}: written by somebody else at the same moment, so it stays."
            raise Conflict(message, "The rest is in place. Do the same again for it.")
        return complete

    def recover(self) -> list[str]:
        """Finish what an interrupted installation had decided, or throw away what it had not.

        Returns:
            What somebody changed since it was decided: it stays as it is, and counts as changed by hand.

        Raises:
            DataError: the journal cannot be read. Conflict: something is in the way. StorageError: the disk.
        """
        try:
            return self._recover()
        except OSError as error:
            raise StorageError(f"Cannot write {error.filename or self.home}: {error.strerror}.", _MEND) from error

    def _recover(self) -> list[str]:
        journal, late = self.home / JOURNAL, list[str]()
        plan = read_journal(journal)
        if plan is not None:
            for path in plan.put:
                _check_place(self.home, path)  # all of them first: what is in the way is named before anything moves
            for path, (index, digest, before) in plan.put.items():
                if not self._put(path, self.home / _STAGING / str(index), digest, before):
                    late.append(path)
                failpoint("install.put-one")
            for path, digest in plan.remove.items():
                if self._may_go(path, digest):
                    self._remove(path)
            write_atomic(self.home / MANIFEST, plan.manifest, mode=0o600)
            failpoint("install.written")
            journal.unlink()
            fsync_folder(self.home)
        _clear(self.home / _STAGING)
        return late

    def remove_everything(self) -> None:
        """The whole place, whatever is in it. Raises StorageError."""
        try:
            shutil.rmtree(self.home)
        except OSError as error:
            raise StorageError(f"Cannot remove {error.filename or self.home}: {error.strerror}.", _MEND) from error

    def note_link(self, link: str) -> None:
        """Remember a link to the launcher, for the uninstall."""
        manifest = self.manifest()
        if manifest is not None and link not in manifest.links:
            noted = manifest.model_copy(update={"links": (*manifest.links, link)})
            write_atomic(self.home / MANIFEST, noted.model_dump_json(indent=1), mode=0o600)

    def take_away(self, left: Mapping[str, str], keep: Collection[str] = ()) -> None:
        """Remove what the manifest names but for what was changed by hand, the manifest, and what else the agent wrote for itself.

        Args:
            left: shared path below the place → what stays of it.
            keep: files and folders (with a slash at the end) below the place that a person would miss.

        Raises:
            StorageError: something cannot be removed; the same again goes on.
        """
        try:
            self._take_away(left, keep)
        except OSError as error:
            raise StorageError(f"Cannot remove {error.filename or self.home}: {error.strerror}.", _MEND) from error

    def _take_away(self, left: Mapping[str, str], keep: Collection[str]) -> None:
        manifest = self.manifest()
        for path, digest in (manifest.files if manifest else {}).items():
            if path in left:
                write_atomic(self.home / path, left[path], mode=0o600)
            elif manifest is not None and (path in manifest.shared or self._may_go(path, digest)):
                self._remove(path)
            failpoint("uninstall.removed-one")
        failpoint("uninstall.removed")
        for folder, _, names in os.walk(self.home, topdown=False):
            for name in names:
                there = Path(folder, name)
                path = there.relative_to(self.home).as_posix()
                if path in (TREE, MANIFEST) or (path not in left and not _kept(there, path, keep)):
                    there.unlink(missing_ok=True)
            if Path(folder) != self.home:
                with contextlib.suppress(OSError):  # it holds what stays, or is a link
                    os.rmdir(folder)

    def _may_go(self, path: str, digest: str) -> bool:
        there = self.home / path
        return _plain(self.home, path) and there.is_file() and sha256_file(there) == digest

    def _stage(self, files: Mapping[str, Content]) -> None:
        staging = self.home / _STAGING
        _clear(staging)
        staging.mkdir(mode=0o700)
        for index, content in enumerate(files.values()):
            descriptor = os.open(staging / str(index), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, content.mode)
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content.text.encode())
                stream.flush()
                os.fsync(stream.fileno())
        fsync_folder(staging)
        fsync_folder(self.home)

    def _put(self, path: str, staged: Path, digest: str, before: str) -> bool:
        """False: the file says neither what it said when this was decided, `before`, nor what it is to say."""
        target = self.home / path
        if not staged.exists():
            return True  # renamed before the interruption
        if self._digest(path) not in (before, digest):
            return False
        if sha256_file(staged) != digest:
            raise StorageError(f"{staged} does not hold what was written.", "Check the disk, then install again.")
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        os.replace(staged, target)
        fsync_folder(target.parent)
        return True

    def _digest(self, path: str) -> str:
        """Empty: it is not there."""
        there = self.home / path
        return sha256_file(there) if there.is_file() else ""

    def _remove(self, path: str) -> None:
        check_path(path)
        if not _plain(self.home, path):
            return
        target = self.home / path
        target.unlink(missing_ok=True)
        for parent in PurePosixPath(path).parents:
            folder = self.home / parent
            if folder == self.home or not folder.is_dir() or any(folder.iterdir()):
                return
            folder.rmdir()


@contextlib.contextmanager
def held(home: Path, finish: bool = True) -> Iterator[Place]:
    """The place `home`, made where it is not there, with nobody else writing to it.

    Args:
        finish: what an interruption left is finished first.

    Raises:
        Conflict: another installation is under way. StorageError: the folder cannot be made or written.
    """
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        hint = "It must be a folder that you may write to; mend its permissions, or choose another home with REEF_HOME."
        raise StorageError(f"Cannot use {home}: {error.strerror}.", hint) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not home.exists():
            raise BlockingIOError  # the one that held it removed it
    except BlockingIOError as error:
        os.close(descriptor)
        raise Conflict(f"Another installation is writing to {home}.", "Wait until it is over, then try again.") from error
    place = Place(home)
    try:
        if finish:
            place.recover()
        yield place
    finally:
        with contextlib.suppress(OSError):  # nothing was installed: leave nothing
            home.rmdir()
        os.close(descriptor)


def _walk(root: Path, reads: Collection[str]) -> Iterator[str]:
    for name in sorted(reads):
        if not name.endswith("/"):
            yield name
            continue
        if (root / name.rstrip("/")).is_symlink():
            raise DataError(f"{root / name.rstrip('/')} is a link.", _NO_LINKS)
        for folder, folders, files in os.walk(root / name):
            folders[:] = sorted(one for one in folders if one not in LEFT_ALONE)
            for one in folders:
                if Path(folder, one).is_symlink():
                    raise DataError(f"{Path(folder, one)} is a link.", _NO_LINKS)
            for one in sorted(files):
                yield Path(folder, one).relative_to(root).as_posix()


def _read(home: Path, path: str) -> str | None:
    there = home / path
    if not _plain(home, path):
        raise DataError(f"{there} is a link, or lies behind one.", _NO_LINKS)
    try:
        descriptor = os.open(there, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"Cannot read {there}: {error.strerror}.", "Mend its permissions, then try again.") from error
    with os.fdopen(descriptor, "rb") as stream:
        facts = os.fstat(stream.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise DataError(f"{there} is no plain file.", "Move it away, then try again.")
        if facts.st_size > MAX_FILE_BYTES:
            raise DataError(f"{there} is larger than {MAX_FILE_BYTES // 1024} KiB.", "Split it, or move it away.")
        data = stream.read(MAX_FILE_BYTES)
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{there} is not valid UTF-8 (byte {error.start}).", "Save it as UTF-8 text.") from error


def _plain(home: Path, path: str) -> bool:
    """Whether no part of `path` is a link."""
    parts = PurePosixPath(path).parts
    return not any(home.joinpath(*parts[:length]).is_symlink() for length in range(1, len(parts) + 1))


def _clear(path: Path) -> None:
    """Whatever is there; what a link leads to stays."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    else:
        shutil.rmtree(path, ignore_errors=True)


def _check_place(home: Path, path: str) -> None:
    """Raises Conflict for whatever is in the way of a plain file."""
    if not _plain(home, path):
        raise Conflict(f"{home / path} is a link, or lies behind one.", _NO_LINKS)
    for part in (path, *map(str, PurePosixPath(path).parents)):
        try:
            mode = (home / part).lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue  # what is nearer to the top says why
        wanted = stat.S_ISREG(mode) if part == path else stat.S_ISDIR(mode)
        if not wanted:
            what = "a folder" if stat.S_ISDIR(mode) else "a file" if stat.S_ISREG(mode) else "no plain file"
            message = f"{home / part} is {what} where a {'file' if part == path else 'folder'} should be."
            raise Conflict(message, "Move it away, then try again.")


def _kept(there: Path, path: str, keep: Collection[str]) -> bool:
    """Whether it is in `keep` and says anything."""
    if not any(path == name or (name.endswith("/") and path.startswith(name)) for name in keep):
        return False
    return there.is_symlink() or there.stat().st_size > 8 or there.read_bytes().strip() not in (b"", b"{}", b"[]")


_MEND = "Mend its permissions, or free the disk, then try again."
_NO_LINKS = "Reef follows no links there; put the file itself in its place."

"""Where another copy of what is damaged may lie: a clone, an unpacked backup, files that were laid out for the engine or by a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from dulwich.errors import NotGitRepository
from dulwich.objects import ObjectID
from dulwich.repo import Repo

from daemon.errors import DataError
from daemon.files import sha256_file
from daemon.versions.git_objects import UNREADABLE
from daemon.versions.manifest import StoredFile


class Copies(Protocol):
    """One place to look. What it gives is not trusted: whoever asks compares the hash."""

    name: str

    def weights(self, stored: StoredFile) -> Path | None:
        """A file that may hold these bytes."""

    def object(self, object_id: str) -> tuple[int, bytes] | None:
        """Type number and content of a git object."""


class Clone:
    """A git repository with the releases, bare or not: `versions.git` of a backup, or what somebody cloned from it."""

    def __init__(self, path: Path, name: str = "") -> None:
        """Raises DataError where `path` is no git repository."""
        self.name = name or f"the clone {path}"
        try:
            self._repo = Repo(str(path))
        except (NotGitRepository, OSError) as error:
            raise DataError(f"{path} is no git repository.", "Name a backup of Reef's, or a clone of versions.git.") from error
        self._lfs = Path(self._repo.controldir()) / "lfs" / "objects"

    def weights(self, stored: StoredFile) -> Path | None:
        found = self._lfs / stored.sha256[:2] / stored.sha256[2:4] / stored.sha256
        return found if found.is_file() else None

    def object(self, object_id: str) -> tuple[int, bytes] | None:
        try:
            return self._repo.object_store.get_raw(ObjectID(object_id.encode()))
        except (KeyError, *UNREADABLE):
            return None

    def close(self) -> None:
        self._repo.close()


class Files:
    """Loose files below some folders, found by their size and hash; git objects there are none."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self.name = "a copy in the home"
        self._folders = tuple(folders)
        self._by_size: dict[int, list[Path]] | None = None

    def weights(self, stored: StoredFile) -> Path | None:
        for path in self._files().get(stored.size_bytes, ()):
            if sha256_file(path) == stored.sha256:
                return path
        return None

    def object(self, object_id: str) -> tuple[int, bytes] | None:
        return None

    def _files(self) -> dict[int, list[Path]]:
        if self._by_size is None:
            self._by_size = {}
            for folder in self._folders:
                for path in sorted(folder.rglob("*")):
                    if path.is_file() and not path.is_symlink():
                        self._by_size.setdefault(path.stat().st_size, []).append(path)
        return self._by_size

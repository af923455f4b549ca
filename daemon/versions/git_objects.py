"""Releases as git objects: the tree of a commit, written durably and read back.

```
release.json  evaluation.json  mutations.json  .gitattributes  harness/…  lora/<pointers>
```
"""

from __future__ import annotations

import os
import secrets
import threading
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from dulwich.errors import ChecksumMismatch, FileFormatException
from dulwich.lfs import LFSPointer
from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.repo import Repo

from daemon.errors import DataError
from daemon.failpoints import failpoint
from daemon.files import fsync_folder
from daemon.harness_tree import MAX_FILE_BYTES, MAX_FILES, HarnessTree, check_tree
from daemon.records import JSONObject
from daemon.versions.manifest import ArtifactKind, Manifest, plain_json, read_manifest
from daemon.versions.mutations import Mutations, read_mutations
from daemon.versions.release import LoRAFiles, Release, ReleaseState
from daemon.versions.tombstones import Tombstones, hash_of
from daemon.versions.weights import missing_parents

MANIFEST_PATH: Final = b"release.json"
EVALUATION_PATH: Final = b"evaluation.json"
MUTATIONS_PATH: Final = b"mutations.json"
_HARNESS: Final = b"harness"
_LORA: Final = b"lora"
_ATTRIBUTES: Final = b"* -text\nlora/* filter=lfs diff=lfs merge=lfs -text\n"
_FILE_MODE: Final = 0o100644
_TREE_MODE: Final = 0o040000
_IDENTITY: Final = b"Reef <reef@localhost>"
_MAX_DEPTH: Final = 16
UNREADABLE: Final = (
    *(FileFormatException, ChecksumMismatch, zlib.error, OSError, EOFError),
    *(ValueError, TypeError, IndexError, AssertionError),  # of its parsers, for bytes that are cut off or no object at all
)
"""What dulwich raises for an object that is none."""


class ForeignCommit(DataError):
    """A commit where a release should be, which somebody pushed or committed with another git. It is never followed."""


def build(
    manifest: Manifest,
    tree: HarnessTree,
    lora: LoRAFiles | None,
    evaluation_json: str | None,
    parents: list[str],
    mutations_json: str | None = None,
) -> list[ShaFile]:
    """All objects of a release, the commit last."""
    objects: list[ShaFile] = []
    files: dict[bytes, bytes] = {MANIFEST_PATH: manifest.to_json().encode(), b".gitattributes": _ATTRIBUTES}
    if evaluation_json is not None:
        files[EVALUATION_PATH] = evaluation_json.encode()
    if mutations_json is not None:
        files[MUTATIONS_PATH] = mutations_json.encode()
    for path, text in tree.files.items():
        files[_HARNESS + b"/" + path.encode()] = text.encode()
    for stored in lora.files if lora else ():
        files[_LORA + b"/" + stored.name.encode()] = LFSPointer(stored.sha256, stored.size_bytes).to_bytes()
    root = _build_tree(files, objects)
    objects.append(commit_of(manifest, root, parents))
    return objects


def commit_of(manifest: Manifest, root: ObjectID, parents: list[str]) -> Commit:
    """The commit of a release; it follows from these."""
    commit = Commit()
    commit.tree = root
    commit.parents = [ObjectID(parent.encode()) for parent in parents]
    commit.author = commit.committer = _IDENTITY
    commit.author_time = commit.commit_time = int(manifest.created_at)
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    first_line = " ".join(f"{manifest.release_id} {manifest.operation}: {manifest.change}".split())
    commit.message = f"{first_line}\n\n{manifest.verdict}".strip().encode() + b"\n"
    return commit


def root_of(
    manifest: ObjectID, evaluation: ObjectID | None, harness: ObjectID | None, lora: ObjectID | None, mutations: ObjectID | None
) -> Tree:
    """The root folder of a release, from the ids of its parts."""
    tree = Tree()
    tree.add(MANIFEST_PATH, _FILE_MODE, manifest)
    tree.add(b".gitattributes", _FILE_MODE, Blob.from_string(_ATTRIBUTES).id)
    for name, mode, part in (
        (EVALUATION_PATH, _FILE_MODE, evaluation),
        (MUTATIONS_PATH, _FILE_MODE, mutations),
        (_HARNESS, _TREE_MODE, harness),
        (_LORA, _TREE_MODE, lora),
    ):
        if part is not None:
            tree.add(name, mode, part)
    return tree


def _require_ours(commit: Commit, begins: str = "") -> None:
    """Raises ForeignCommit for what somebody made with another git: its author is another, or its first line."""
    subject = commit.message.split(b"\n", 1)[0]
    if (commit.author, commit.committer) != (_IDENTITY, _IDENTITY) or not subject.startswith(begins.encode()):
        by, said = commit.committer.decode(errors="replace"), subject.decode(errors="replace")
        raise ForeignCommit(
            f"The commit {commit.id.decode()[:12]} ({said[:60]!r} by {by[:60]}) was not made by Reef.",
            "With the daemon down, `reef fsck --repair` puts the chain back to the last release and keeps this commit beside it.",
        )


def evaluation_text(evaluation: JSONObject | None) -> str | None:
    """The text of evaluation.json."""
    return None if evaluation is None else plain_json(evaluation, lone_surrogates="backslashreplace")  # the JSON escape it came from


def _build_tree(files: Mapping[bytes, bytes], objects: list[ShaFile]) -> ObjectID:
    tree = Tree()
    folders: dict[bytes, dict[bytes, bytes]] = {}
    for path, data in files.items():
        name, _, rest = path.partition(b"/")
        if rest:
            folders.setdefault(name, {})[rest] = data
        else:
            blob = Blob.from_string(data)
            objects.append(blob)
            tree.add(name, _FILE_MODE, blob.id)
    for name, content in folders.items():
        tree.add(name, _TREE_MODE, _build_tree(content, objects))
    objects.append(tree)
    return tree.id


def write(objects_folder: Path, objects: Iterable[ShaFile], known: set[bytes], *, over: bool = False) -> None:
    """Write loose objects durably, all files before the folders; `known` ones are durable already.

    `over`: also where a file of the name is, because that one is damaged.

    dulwich's own writer leaves a lock file behind when it is killed, which blocks that very object for good, and does
    not fsync folders. Raises OSError.
    """
    folders: set[Path] = set()
    for shafile in objects:
        if shafile.id in known:
            continue
        name = shafile.id.decode()
        target = objects_folder / name[:2] / name[2:]
        folders.update(missing_parents(target, objects_folder))
        folders.add(target.parent)  # even when the object is there: its writer may have died before this fsync
        if target.exists() and not over:
            target.touch()  # young again: nothing collects it before a ref reaches it
            continue
        target.parent.mkdir(exist_ok=True)
        temporary = target.parent / f"tmp_obj_{secrets.token_hex(6)}"  # a name that `git gc` sweeps
        try:
            with temporary.open("xb") as stream:
                stream.write(shafile.as_legacy_object())
                stream.flush()
                os.fsync(stream.fileno())
            temporary.chmod(0o444)
            os.replace(temporary, target)
            failpoint("publish.object-written")
        finally:
            temporary.unlink(missing_ok=True)
    for folder in sorted(folders):
        fsync_folder(folder)


class ObjectReader:
    """Typed access to a repository's objects; what git cannot give becomes a `DataError`."""

    def __init__(self, repo: Repo, tombstones: Tombstones) -> None:
        self._repo = repo
        self._tombstones = tombstones
        self._lock = threading.Lock()
        self._trees: dict[bytes, HarnessTree] = {}
        self._folders: dict[bytes, dict[str, str]] = {}

    def forget(self) -> None:
        """Read everything anew: objects were replaced."""
        with self._lock:
            self._repo.object_store.close()  # packs that are open
            self._trees.clear()
            self._folders.clear()

    def commit(self, commit_id: str) -> Commit:
        found = self._get(ObjectID(commit_id.encode()))
        if not isinstance(found, Commit):
            raise DataError(f"The git object {commit_id} is no commit.", "Run `reef fsck`.")
        return found

    def tree(self, tree_id: ObjectID) -> Tree:
        found = self._get(tree_id)
        if not isinstance(found, Tree):
            raise DataError(f"The git object {tree_id.decode()} is no tree.", "Run `reef fsck`.")
        return found

    def blob(self, blob_id: ObjectID) -> bytes:
        found = self._get(blob_id)
        if not isinstance(found, Blob):
            raise DataError(f"The git object {blob_id.decode()} is no file.", "Run `reef fsck`.")
        return found.data

    def _get(self, object_id: ObjectID) -> ShaFile:
        try:
            with self._lock:  # dulwich's pack cache is not made for threads
                return self._repo.object_store[object_id]
        except KeyError as error:
            raise DataError(f"The git object {object_id.decode()} is missing.", "Run `reef fsck`.") from error
        except ChecksumMismatch as error:
            kind, data = self.checked(object_id)
            if kind == Blob.type_num and hash_of(Blob.type_name, data) == self._tombstones.now(object_id.decode()):
                return Blob.from_string(data)
            raise DataError(f"The git object {object_id.decode()} is damaged.", "Run `reef fsck`.") from error
        except UNREADABLE as error:
            raise DataError(f"The git object {object_id.decode()} is damaged.", "Run `reef fsck`.") from error

    def raw(self, object_id: ObjectID) -> tuple[int, bytes]:
        """Type number and bytes, for checks; dulwich's own errors pass through."""
        name = object_id.decode()
        loose = Path(self._repo.controldir()) / "objects" / name[:2] / name[2:]
        if loose.is_file():
            zlib.decompress(loose.read_bytes())  # dulwich takes a file that was cut in its checksum; git does not
        with self._lock:
            return self._repo.object_store.get_raw(object_id)

    def checked(self, object_id: ObjectID) -> tuple[int, bytes]:
        """As `raw`. Raises DataError."""
        try:
            return self.raw(object_id)
        except KeyError as error:
            raise DataError(f"The git object {object_id.decode()} is missing.", "Run `reef fsck`.") from error
        except UNREADABLE as error:
            raise DataError(f"The git object {object_id.decode()} is damaged.", "Run `reef fsck`.") from error

    def reachable(self, commit_id: str) -> set[bytes]:
        """Ids of the commit, its trees and files (not of its parents)."""
        commit = self.commit(commit_id)
        found: set[bytes] = {commit.id}
        waiting = [commit.tree]
        while waiting:
            tree_id = waiting.pop()
            found.add(tree_id)
            for entry in self.tree(tree_id).items():
                if entry.sha is None or entry.mode is None:
                    continue
                if entry.mode == _TREE_MODE:
                    waiting.append(entry.sha)
                else:
                    found.add(entry.sha)
        return found

    def is_there(self, commit_id: str) -> bool:
        """Whether all of these are on disk; what they hold is not looked at."""
        try:
            found = self.reachable(commit_id)
        except DataError:
            return False
        with self._lock:
            return all(ObjectID(object_id) in self._repo.object_store for object_id in found)

    def release(self, commit_id: str, state: ReleaseState) -> Release:
        """Read one release. Raises DataError for anything that is none."""
        commit = self.commit(commit_id)
        _require_ours(commit)
        entries = {entry.path: entry for entry in self.tree(commit.tree).items()}
        manifest_entry = entries.get(MANIFEST_PATH)
        if manifest_entry is None or manifest_entry.sha is None:
            raise DataError(f"The commit {commit_id} has no release.json.", "It is no release of Reef; run `reef fsck`.")
        manifest = read_manifest(self.blob(manifest_entry.sha), f"commit {commit_id[:12]}")
        _require_ours(commit, f"{manifest.release_id} {manifest.operation}:")
        evaluation = entries.get(EVALUATION_PATH)
        harness = entries.get(_HARNESS)
        lora: LoRAFiles | None = None
        artifact = manifest.artifact(ArtifactKind.LORA)
        if artifact is not None and _LORA in entries:
            lora = LoRAFiles(artifact.content_id, artifact.files, artifact.details)
        return Release(
            manifest,
            commit_id,
            state,
            self.harness(harness.sha) if harness is not None and harness.sha is not None else HarnessTree(),
            lora,
            self.blob(evaluation.sha).decode(errors="replace") if evaluation is not None and evaluation.sha is not None else None,
            tuple(parent.decode() for parent in commit.parents),
        )

    def mutations(self, commit_id: str) -> Mutations | None:
        """What the release says of its harness's changes; read when asked for, which is seldom."""
        for entry in self.tree(self.commit(commit_id).tree).items():
            if entry.path == MUTATIONS_PATH and entry.sha is not None:
                return read_mutations(self.blob(entry.sha), f"commit {commit_id[:12]}")
        return None

    def harness(self, tree_id: ObjectID) -> HarnessTree:
        """The tree below `harness/`, bounded and checked; releases that share it share the object."""
        known = self._trees.get(tree_id)
        if known is None:
            known = HarnessTree(self._files(tree_id, 0))
            check_tree(known)
            self._trees[tree_id] = known
        return known

    def _files(self, tree_id: ObjectID, depth: int) -> dict[str, str]:
        """Relative path → text; folders that releases share are read once."""
        known = self._folders.get(tree_id)
        if known is not None:
            return known
        files: dict[str, str] = {}
        for entry in self.tree(tree_id).items():
            if entry.path is None or entry.mode is None or entry.sha is None:
                continue
            try:
                name = entry.path.decode()
                if entry.mode == _TREE_MODE and depth < _MAX_DEPTH:
                    files.update({f"{name}/{path}": text for path, text in self._files(entry.sha, depth + 1).items()})
                    continue
                data = self.blob(entry.sha)
                if entry.mode != _FILE_MODE or len(data) > MAX_FILE_BYTES or len(files) >= MAX_FILES:
                    raise DataError(f"The harness file {name} is a link, is executable, or is too large.", "Run `reef fsck`.")
                files[name] = data.decode()
            except UnicodeDecodeError as error:
                raise DataError(f"The harness file {entry.path!r} is not UTF-8.", "Run `reef fsck`.") from error
        self._folders[tree_id] = files
        return files

    def pointers(self, commit_id: str) -> dict[str, LFSPointer | None]:
        """Name → LFS pointer below `lora/`; None where the file is no pointer."""
        for entry in self.tree(self.commit(commit_id).tree).items():
            if entry.path == _LORA and entry.sha is not None:
                return {
                    (one.path or b"").decode(errors="replace"): LFSPointer.from_bytes(self.blob(one.sha))
                    for one in self.tree(entry.sha).items()
                    if one.sha is not None
                }
        return {}

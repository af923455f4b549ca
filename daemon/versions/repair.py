"""Mending a repository of releases, with the daemon down: what `fsck` names, as far as another copy or the releases themselves allow.

Nothing is guessed: an object comes back only with the hash of its name, and a head that leads nowhere goes to a release that was published
and is whole. Where a newer Reef wrote a manifest nothing is touched at all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dulwich.objects import Commit, ObjectID, ShaFile, Tree
from dulwich.repo import Repo

from daemon.errors import DataError, ReefError
from daemon.files import fsync_folder
from daemon.versions import git_objects
from daemon.versions.copies import Copies
from daemon.versions.git_objects import UNREADABLE, ForeignCommit
from daemon.versions.kept import WeightState, weight_state
from daemon.versions.manifest import NewerManifest
from daemon.versions.rebuild import Rebuilder
from daemon.versions.refs import NOWHERE, OUTSIDE, SCENARIOS, head_ref, mirror_ref
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository
from daemon.versions.storage import open_repository, storing
from daemon.versions.tombstones import hash_of

_KINDS = {1: b"commit", 2: b"tree", 3: b"blob", 4: b"tag"}


@dataclass(frozen=True, slots=True)
class Mended:
    where: str
    message: str  # a sentence: what was wrong and what was done


def repair(repository: Repository, copies: Sequence[Copies], published: Mapping[str, Sequence[str]] | None = None) -> list[Mended]:
    """Mend what can be; `fsck` afterwards says what is left.

    Args:
        copies: where to look for what is damaged, in this order.
        published: per scenario the ids of releases that were its head, oldest first, as the operation log has them.

    Raises:
        NewerManifest: a release was written by a newer Reef; nothing has changed. StorageError, Busy: as `Repository`.
    """
    with repository.writing():
        _refuse_newer(repository)
        with storing(repository.path), closing(open_repository(repository.path)) as raw:
            done = _mend(_Mender(repository, raw, copies), published or {})
        repository.tidy()
    return done


def _mend(mender: _Mender, published: Mapping[str, Sequence[str]]) -> list[Mended]:
    done = mender.objects()
    done += mender.heads(published)
    done += mender.objects()  # of what the heads reach now
    done += mender.other_refs()
    done += mender.weights()
    return done + mender.leftovers()


def _refuse_newer(repository: Repository) -> None:
    """Raises NewerManifest."""
    for commit_id in set(repository.refs.below(SCENARIOS).values()):
        at: str | None = commit_id
        while at is not None:
            try:
                at = next(iter(repository.reader.release(at, ReleaseState.PUBLISHED).parents), None)
            except NewerManifest:
                raise
            except ReefError:
                break


class _Mender:
    def __init__(self, repository: Repository, raw: Repo, copies: Sequence[Copies]) -> None:
        self._repository = repository
        self._raw = raw
        self._copies = copies
        self._rebuilder = Rebuilder(raw)

    # --- git objects -------------------------------------------------------------------------------------------

    def objects(self) -> list[Mended]:
        """Bring back what refs reach and cannot be read, layer by layer: what is below a missing folder is known once it is there."""
        done: list[Mended] = []
        tried: set[str] = set()
        while lost := {one: wrong for one, wrong in self._lost().items() if one not in tried}:
            self._unpack()
            tried |= lost.keys()
            found = {one: self._copy_of(one) for one in lost}
            made = self._rebuilder.made({one for one, (shafile, _) in found.items() if shafile is None})
            fixed = [(one, shafile, name) for one, (shafile, name) in found.items() if shafile is not None]
            fixed += [(one, shafile, "what the releases themselves say") for one, shafile in made.items()]
            git_objects.write(self._repository.path / "objects", [shafile for _, shafile, _ in fixed], set(), over=True)
            self._repository.read_anew()
            done += [Mended(one, f"The git object {one} {lost[one]}; it is back, from {name}.") for one, _, name in fixed]
        return done

    def _unpack(self) -> None:
        """What can be read of a foreign git's packs becomes loose: a damaged object in a pack would hide the one that is put back."""
        for pack in list(self._raw.object_store.packs):
            whole: list[ShaFile] = []
            try:
                for object_id in pack:
                    with contextlib.suppress(KeyError, *UNREADABLE):
                        kind, data = pack.get_raw(object_id)
                        if hash_of(_KINDS.get(kind, b"?"), data).encode() == object_id:
                            whole.append(ShaFile.from_raw_string(kind, data))
            except UNREADABLE:
                continue  # its index cannot be read: the pack stays for whoever can
            git_objects.write(self._repository.path / "objects", whole, set())
            pack.close()
            for path in (self._repository.path / "objects" / "pack").glob(f"{Path(pack.data.path).stem}.*"):
                path.unlink()
        self._raw.object_store.close()
        self._repository.read_anew()

    def _lost(self) -> dict[str, str]:
        """Reachable objects that are not what their names say → what is wrong."""
        tombstones = self._repository.tombstones.objects
        seen: set[str] = set()
        lost: dict[str, str] = {}
        waiting = [one for name, one in self._repository.refs.everything().items() if one != NOWHERE and name.startswith("refs/reef/")]
        while waiting:
            object_id = waiting.pop()
            if object_id in seen:
                continue
            seen.add(object_id)
            try:
                kind, data = self._repository.reader.checked(ObjectID(object_id.encode()))
            except DataError as error:
                lost[object_id] = "was missing" if "missing" in error.message else "was damaged"
                continue
            found = hash_of(_KINDS.get(kind, b"?"), data)
            if found not in (object_id, tombstones.get(object_id)):
                lost[object_id] = "had another content"
                continue
            waiting += _below(kind, data)
        return lost

    def _copy_of(self, object_id: str) -> tuple[ShaFile | None, str]:
        for place in self._copies:
            found = place.object(object_id)
            if found is not None and found[0] in _KINDS and hash_of(_KINDS[found[0]], found[1]) == object_id:
                return ShaFile.from_raw_string(found[0], found[1]), place.name
        return None, ""

    # --- refs --------------------------------------------------------------------------------------------------

    def heads(self, published: Mapping[str, Sequence[str]]) -> list[Mended]:
        """Heads that lead nowhere, or to what no Reef made, go to the last good release."""
        done: list[Mended] = []
        scenarios = dict.fromkeys([*self._repository.refs.scenarios(), *(name for name, ids in published.items() if ids)])
        for scenario in scenarios:
            held = self._repository.refs.get(head_ref(scenario))
            wrong, foreign = self._wrong_head(held)
            if not wrong:
                continue
            good = self._last_good(scenario, held, published.get(scenario, ()))
            if good is None:
                continue  # fsck goes on naming it
            if foreign and held is not None:
                self._repository.refs.replace(f"{OUTSIDE}{scenario}/{held[:12]}", held)
                wrong += f" It is kept below {OUTSIDE}."
            self._repository.refs.replace(head_ref(scenario), good.commit_id)
            done.append(Mended(f"{scenario} head", f"{wrong} The head is {good.id} now, the last release that is whole."))
        self._repository.read_anew()
        return done

    def _wrong_head(self, commit_id: str | None) -> tuple[str, bool]:
        """A sentence, and whether another git made the commit; empty for a head that is there, though something of it may be damaged."""
        if commit_id is None:
            return "The head was missing.", False
        if commit_id == NOWHERE:
            return "The head held no id.", False
        if _is_gone(self._repository, commit_id):
            return f"The head pointed to {commit_id[:12]}, which is not there.", False
        at: str | None = commit_id
        while at is not None:
            try:
                at = next(iter(self._repository.reader.release(at, ReleaseState.PUBLISHED).parents), None)
            except ForeignCommit as error:
                return error.message, True
            except ReefError:
                break
        return "", False

    def _last_good(self, scenario: str, held: str | None, published: Sequence[str]) -> Release | None:
        """The newest of: what the head stands on, what the mirror shows, and what the log says was the head."""
        mirror = self._repository.refs.get(mirror_ref(scenario))
        found = [*self._line(held), *self._line(mirror), *self._commits_of(scenario, set(published))]
        good = [release for release in found if release.manifest.scenario == scenario and self._is_whole(release)]
        return max(good, key=lambda release: release.manifest.number, default=None)

    def _line(self, commit_id: str | None) -> Iterator[Release]:
        """The nearest release at or below a commit, along first parents."""
        at = commit_id if commit_id not in (None, NOWHERE) else None
        while at is not None:
            try:
                yield self._repository.reader.release(at, ReleaseState.PUBLISHED)
                return
            except ReefError:
                at = _parent(self._repository, at)

    def _commits_of(self, scenario: str, ids: set[str]) -> Iterator[Release]:
        """All releases in the store that the log names as published; whether a ref reaches them or not."""
        if not ids:
            return
        for object_id in self._raw.object_store:
            try:
                release = self._repository.reader.release(object_id.decode(), ReleaseState.PUBLISHED)
            except ReefError:
                continue  # no commit, or none of ours
            if release.manifest.scenario == scenario and release.id in ids:
                yield release

    def _is_whole(self, release: Release) -> bool:
        """It and all before it can be read, and each stands on one of a smaller number."""
        at: Release | None = release
        while at is not None and at.parents:
            try:
                before = self._repository.reader.release(at.parents[0], ReleaseState.PUBLISHED)
            except ReefError:
                return False
            if before.manifest.number >= at.manifest.number or before.id != at.manifest.parent_release_id:
                return False
            at = before
        return True

    def other_refs(self) -> list[Mended]:
        """Candidates and pins whose commit is gone: nothing can be made of them."""
        done: list[Mended] = []
        for name, commit_id in sorted(self._repository.refs.below(SCENARIOS).items()):
            if name.endswith("/head") or not (commit_id == NOWHERE or _is_gone(self._repository, commit_id)):
                continue
            if commit_id == NOWHERE:
                (self._repository.path / name).unlink(missing_ok=True)
            else:
                self._repository.refs.remove(name, commit_id)
            done.append(Mended(name, f"The ref {name} pointed to {commit_id[:12]}, which is not there; the ref is removed."))
        return done

    # --- weights and leftovers ---------------------------------------------------------------------------------

    def weights(self) -> list[Mended]:
        store, done = self._repository.weights, list[Mended]()
        checked: set[str] = set()
        for release in self._releases():
            gone = weight_state(release, store, self._repository.tombstones) in (WeightState.COLLECTED, WeightState.ERASED)
            for stored in release.lora.files if release.lora is not None and not gone else ():
                if stored.sha256 in checked:
                    continue
                checked.add(stored.sha256)
                if store.is_whole(stored):
                    continue
                for place in self._copies:
                    source = place.weights(stored)
                    if source is not None and store.put_back(stored, source):
                        where = f"{release.manifest.scenario} {release.id}"
                        done.append(Mended(where, f"The weights {stored.name} (sha256 {stored.sha256}) are back, from {place.name}."))
                        break
        return done

    def _releases(self) -> Iterator[Release]:
        for name in self._repository.refs.below(SCENARIOS).values():
            at: str | None = name
            while at is not None:
                try:
                    release = self._repository.reader.release(at, ReleaseState.PUBLISHED)
                except ReefError:
                    at = _parent(self._repository, at)
                    continue
                yield release
                at = next(iter(release.parents), None)

    def leftovers(self) -> list[Mended]:
        """What killed writers left: the lock is held, so nobody is at work."""
        done: list[Mended] = []
        for pattern in ("lfs/tmp/*", "objects/??/tmp_obj_*", "refs/**/*.lock", "reef/.*.tmp"):
            for path in sorted(self._repository.path.glob(pattern)):
                path.unlink(missing_ok=True)
                fsync_folder(path.parent)
                done.append(Mended(str(path), f"{path.name} was left by a writer that was killed; it is removed."))
        return done


def _below(kind: int, data: bytes) -> list[str]:
    """Ids that a commit or a folder names; parents included."""
    if kind not in (1, 2):
        return []
    found = ShaFile.from_raw_string(kind, data)
    if isinstance(found, Commit):
        return [found.tree.decode(), *(parent.decode() for parent in found.parents)]
    return [entry.sha.decode() for entry in found.items() if entry.sha is not None] if isinstance(found, Tree) else []


def _parent(repository: Repository, commit_id: str) -> str | None:
    try:
        return next((parent.decode() for parent in repository.reader.commit(commit_id).parents), None)
    except ReefError:
        return None


def _is_gone(repository: Repository, commit_id: str) -> bool:
    try:
        repository.reader.commit(commit_id)
    except ReefError:
        return True
    return False

"""Releases as commits in a bare git repository: prepare, then move the head by compare-and-swap.

`refs/reef/scenarios/<s>/head` is the chain of a scenario, `…/held/<rN>` a candidate that waits for a person, and
`…/rejected/<rN>` the trace of one that lost. `refs/heads/<s>` mirrors the head, so that a plain `git clone` shows what serves.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from dulwich.file import FileLocked

from daemon.errors import Conflict, DataError, NotFound
from daemon.failpoints import failpoint
from daemon.harness_tree import HarnessTree, check_tree
from daemon.versions import git_objects
from daemon.versions.burying import bury, erase_files, replaced
from daemon.versions.change import change_line
from daemon.versions.draft import lora_of, manifest_of, mutations_text
from daemon.versions.kept import require_weights
from daemon.versions.lock import WriteLock
from daemon.versions.manifest import Manifest, StoredFile
from daemon.versions.refs import OUTSIDE, Refs, check_scenario, head_ref, held_refs, is_release_id, mirror_ref, rejected_refs
from daemon.versions.release import LORA_GGUF, Draft, LoRAFiles, Prepared, Release, ReleaseState, nearest_ids
from daemon.versions.storage import open_or_create, open_repository, storing
from daemon.versions.tombstones import Tombstones, Words
from daemon.versions.weights import WeightStore

_LOG = logging.getLogger(__name__)


class Repository:
    """The versions of one home. Safe for threads and for several processes; calls block, so use it off the event loop.

    Errors of all calls: `StorageError` (disk), `Busy` (another process writes), `DataError` (the repository is damaged).
    """

    def __init__(self, path: Path, *, only_look: bool = False) -> None:
        """Open `path`; create it, whole or not at all, where there is none, and finish what a killed writer left.

        `only_look`: neither of both; nothing on disk changes.
        """
        self.path = path
        self._repo = open_repository(path) if only_look else open_or_create(path)
        self.refs = Refs(self._repo, path)
        self._lock = WriteLock(path / "reef" / "lock")
        self.tombstones = Tombstones(path / "reef" / "tombstones.json")
        self.reader = git_objects.ObjectReader(self._repo, self.tombstones)
        self._releases: dict[str, Release] = {}  # by commit id; commits never change
        self.weights = WeightStore(path / "lfs")
        if not only_look:
            self.tidy()

    def close(self) -> None:
        self._repo.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else writes meanwhile, in this process or another."""
        with self._lock.held():
            yield

    # --- reading -----------------------------------------------------------------------------------------------

    def scenarios(self) -> list[str]:
        return self.refs.scenarios()

    def head(self, scenario: str) -> Release | None:
        """What serves; None for a scenario without a release."""
        commit_id = self.refs.get(head_ref(scenario))
        return self._read(commit_id, ReleaseState.PUBLISHED) if commit_id else None

    def chain(self, scenario: str, limit: int | None = None) -> list[Release]:
        """Newest first."""
        return list(itertools.islice(self._walk(scenario), limit))

    def held(self, scenario: str) -> list[Release]:
        """Candidates that wait for a person, newest first."""
        if not (refs := self.refs.below(held_refs(scenario))):
            return []
        promoted = {parent for release in self._walk(scenario) for parent in release.parents[1:]}
        found = [self._read(commit_id, ReleaseState.HELD) for commit_id in refs.values() if commit_id not in promoted]
        return sorted(found, key=lambda release: -release.manifest.number)

    def rejected(self, scenario: str) -> list[Release]:
        """Traces of candidates that lost, newest first; their weights are gone."""
        found = [self._read(commit_id, ReleaseState.REJECTED) for commit_id in self.refs.below(rejected_refs(scenario)).values()]
        return sorted(found, key=lambda release: -release.manifest.number)

    def release(self, scenario: str, release_id: str) -> Release:
        """Any release of the scenario: published, held, rejected, or held and promoted since.

        Raises:
            NotFound: names the nearest ids.
        """
        if is_release_id(release_id):
            for release in self._walk(scenario):
                if release.id == release_id:
                    return release
                for parent in release.parents[1:]:
                    candidate = self._read(parent, ReleaseState.PROMOTED)
                    if candidate.id == release_id:
                        return candidate
            for folder, state in ((held_refs(scenario), ReleaseState.HELD), (rejected_refs(scenario), ReleaseState.REJECTED)):
                commit_id = self.refs.get(folder + release_id)
                if commit_id:
                    return self._read(commit_id, state)
        known = [release.id for release in [*self.chain(scenario), *self.held(scenario)]]
        hint = f"Nearest: {', '.join(nearest_ids(release_id, known))}." if known else f"The scenario {scenario} has no release yet."
        raise NotFound(f"There is no release {release_id} in scenario {scenario}.", hint)

    def promoted_by(self, release: Release) -> list[Release]:
        """The held candidates that a published release let serve; one at most, today."""
        return [self._read(parent, ReleaseState.PROMOTED) for parent in release.parents[1:]]

    def checkout_lora(self, release: Release, folder: Path) -> Path | None:
        """Put the release's GGUF LoRA at `<folder>/<sha256>.gguf`, verified; None for the base model alone.

        Raises Conflict where the weights were collected or erased.
        """
        require_weights(release, self.weights, self.tombstones)
        stored = release.lora.file(LORA_GGUF) if release.lora else None
        return self.weights.check_out(stored, folder / f"{stored.sha256}.gguf") if stored else None

    def checkout_lora_folder(self, release: Release, folder: Path) -> Path | None:
        """Copies of all files of the release's LoRA under their own names, verified, to train on from there."""
        for stored in release.lora.files if release.lora else ():
            self.weights.check_out(stored, folder / stored.name, copy=True)
        return folder if release.lora else None

    # --- writing -----------------------------------------------------------------------------------------------

    def publish(self, draft: Draft, expected_head: str | None) -> Release:
        """`prepare` and `advance` in one; for what needs no smoke test in between.

        Raises:
            Conflict: the head is not `expected_head` (a release id; None: there is none yet).
        """
        with self._lock.held():
            self._expect(draft.scenario, expected_head)
            return self.advance(self.prepare(draft), expected_head)

    def prepare(self, draft: Draft) -> Prepared:
        """Make weights, then trees and commit durable, on top of what it was compared with; no ref moves.

        Raises:
            DataError: a file is missing, or a harness path is none. NotFound: there is no release that it was compared with.
        """
        check_scenario(draft.scenario)
        check_tree(draft.harness)
        with self._lock.held(), storing(self.path):
            head = self.head(draft.scenario)
            parent = self.release(draft.scenario, draft.compared_with) if draft.compared_with is not None else head
            lora, fresh = lora_of(draft, self.weights)
            try:
                failpoint("publish.lfs-written")
                if not draft.change:
                    draft = replace(draft, change=change_line(parent, draft.harness, lora, draft.base, draft.engine))
                release_id = self._next_id(draft.scenario, head)
                manifest = manifest_of(draft, release_id, parent.id if parent else None, lora, time.time())
                parents = [one for one in (parent.commit_id if parent else None, draft.promotes) if one]
                said = mutations_text(draft, release_id, parent)
                release = self._commit(manifest, draft.harness, lora, git_objects.evaluation_text(draft.evaluation), parents, said)
            except BaseException:
                self._remove_unused(fresh)  # a full disk gets its space back
                raise
            failpoint("publish.commit-written")
            return Prepared(draft, release, parent.commit_id if parent else None, fresh)

    def advance(self, prepared: Prepared, expected_head: str | None) -> Release:
        """Make the prepared release the head, if the head is still `expected_head` and what it was prepared on.

        Raises:
            Conflict: says which head stands. Nothing has changed then.
        """
        scenario = prepared.manifest.scenario
        with self._lock.held(), storing(self.path):
            self._expect(scenario, expected_head)
            self._require_there(prepared)
            if not self.refs.swap(head_ref(scenario), prepared.parent_commit_id, prepared.release.commit_id):
                raise self._stale(scenario, prepared.manifest.parent_release_id)
            failpoint("publish.head-moved")
            self._follow_head(scenario)
            failpoint("publish.followed")
        return prepared.release

    def hold(self, prepared: Prepared) -> Release:
        """Keep a prepared candidate for a person to promote."""
        scenario, release_id = prepared.manifest.scenario, prepared.manifest.release_id
        with self._lock.held(), storing(self.path):
            self._require_there(prepared)
            if not self.refs.swap(held_refs(scenario) + release_id, None, prepared.release.commit_id):
                raise Conflict(f"Another candidate {release_id} is held already.", "Run `reef fsck`.")
            failpoint("hold.held")
        return replace(prepared.release, state=ReleaseState.HELD)

    def reject(self, prepared: Prepared) -> Release:
        """Leave a trace of a candidate that lost: manifest, harness and evaluation, without weights."""
        with self._lock.held(), storing(self.path):
            trace = self.leave_trace(prepared.release)
            failpoint("reject.traced")
            self._remove_unused(prepared.fresh_weights)
            failpoint("reject.cleared")
        return trace

    def discard(self, prepared: Prepared) -> None:
        """Give back the disk of a preparation that came to nothing; weights that a release uses stay."""
        with self._lock.held(), storing(self.path):
            self._remove_unused(prepared.fresh_weights)

    def holding(self, words: Words) -> dict[tuple[str, str], int]:
        """How many files of which release (scenario, id) hold any of `words`; nothing changes."""
        doomed = replaced(self._repo, words)
        found: dict[tuple[str, str], int] = {}
        for release in self._all():
            count = len(self.reader.reachable(release.commit_id) & doomed.keys())
            if count:
                found[release.manifest.scenario, release.id] = count
        return found

    def bury(self, words: Words) -> int:
        """Take `words` out of the files of every release; how many files were replaced. See `tombstones`."""
        with self._lock.held(), storing(self.path):
            doomed = replaced(self._repo, words)
            bury(self._repo, self.path / "objects", self.tombstones, doomed)
            self.read_anew()
        return len(doomed)

    def read_anew(self) -> None:
        """Forget what was read: objects were replaced, or are back."""
        self._releases.clear()
        self.reader.forget()

    def erase_weights(self, files: Sequence[StoredFile]) -> None:
        """Remove weights that no release may serve again; a check knows them as erased."""
        with self._lock.held(), storing(self.path):
            self.tombstones.add({}, [stored.sha256 for stored in files])
            erase_files([self.weights.path_of(stored.sha256) for stored in files])

    def drop_held(self, scenario: str, release_id: str) -> None:
        """A held candidate is given up, its weights with it."""
        with self._lock.held(), storing(self.path):
            name = held_refs(scenario) + release_id
            commit_id = self.refs.get(name)
            if commit_id is None:
                return
            release = self._read(commit_id, ReleaseState.HELD)
            self.refs.remove(name, commit_id)
            self._remove_unused([stored.sha256 for stored in (release.lora.files if release.lora else ())])

    def _all(self) -> Iterator[Release]:
        """Every release of every scenario, in whatever state."""
        for scenario in self.refs.all_scenarios():
            for release in (*self._walk(scenario), *self.held(scenario), *self.rejected(scenario)):
                yield release
                for parent in release.parents[1:]:
                    yield self._read(parent, ReleaseState.PROMOTED)

    def weights_in_use(self) -> set[str]:
        """sha256 of all LFS objects that a release, held candidates included, refers to."""
        used: set[str] = set()
        for scenario in self.refs.all_scenarios():
            for release in [*self.chain(scenario), *self.held(scenario)]:
                used.update(stored.sha256 for stored in (release.lora.files if release.lora else ()))
        return used

    # --- inside ------------------------------------------------------------------------------------------------

    def _commit(
        self, manifest: Manifest, tree: HarnessTree, lora: LoRAFiles | None, evaluated: str | None, parents: list[str], said: str | None
    ) -> Release:
        objects = git_objects.build(manifest, tree, lora, evaluated, parents, said)
        durable = [*parents, *([self.release(manifest.scenario, manifest.restores).commit_id] if manifest.restores else [])]
        known = set[bytes]().union(*(self.reader.reachable(commit_id) for commit_id in durable))
        git_objects.write(self.path / "objects", objects, known)
        release = Release(manifest, objects[-1].id.decode(), ReleaseState.PUBLISHED, tree, lora, evaluated, tuple(parents))
        self._releases[release.commit_id] = release
        return release

    def leave_trace(self, candidate: Release, verdict: str = "") -> Release:
        """The candidate again, without weights, under `rejected/`; the lock is held. `verdict`: instead of what the gate said."""
        manifest = candidate.manifest.model_copy(update={"verdict": verdict} if verdict else {})
        mutations = self.reader.mutations(candidate.commit_id)
        said = mutations.to_json() if mutations is not None else None
        trace = self._commit(manifest, candidate.tree, None, candidate.evaluation_json, list(candidate.parents[:1]), said)
        self.refs.swap(rejected_refs(manifest.scenario) + manifest.release_id, None, trace.commit_id)
        return replace(trace, state=ReleaseState.REJECTED)

    def _remove_unused(self, sha256s: Sequence[str]) -> None:
        try:
            used = self.weights_in_use()
        except DataError as error:  # what is used cannot be known: keep everything
            _LOG.warning("Weights are kept, because the repository is damaged: %s", error)
            return
        for sha256 in sha256s:
            if sha256 not in used:
                self.weights.remove(sha256)

    def _read(self, commit_id: str, state: ReleaseState) -> Release:
        release = self._releases.get(commit_id)
        if release is None:
            release = self.reader.release(commit_id, state)
            self._releases[commit_id] = release
        return release if release.state is state else replace(release, state=state)

    def _walk(self, scenario: str) -> Iterator[Release]:
        commit_id = self.refs.get(head_ref(scenario))
        while commit_id:
            release = self._read(commit_id, ReleaseState.PUBLISHED)
            yield release
            commit_id = release.parents[0] if release.parents and release.manifest.parent_release_id else None

    def has_numbered(self, scenario: str) -> bool:
        """Whether a release of the scenario was ever prepared here."""
        return self._counter(scenario).exists()

    def _counter(self, scenario: str) -> Path:
        return self.path / "reef" / "numbers" / check_scenario(scenario)

    def _next_id(self, scenario: str, head: Release | None) -> str:
        """A number that no release, candidate or preparation of the scenario has had; a crash leaves a gap."""
        counter = self._counter(scenario)
        counter.parent.mkdir(parents=True, exist_ok=True)
        text = counter.read_text() if counter.exists() else ""
        seen = [int(text) if text.isdigit() else 0, head.manifest.number if head else 0]
        seen += [int(name[1:]) for name in self.refs.candidate_ids(scenario)]
        number = max(seen) + 1
        counter.write_text(str(number))  # not fsynced: a power cut also takes the preparation that the number was for
        return f"r{number}"

    def _expect(self, scenario: str, expected_head: str | None) -> None:
        head = self.head(scenario)
        if (head.id if head else None) != expected_head:
            raise self._stale(scenario, expected_head)

    def _stale(self, scenario: str, seen: str | None) -> Conflict:
        head = self.head(scenario)
        stands = f"{head.id} is the head of {scenario} now" if head else f"{scenario} has no release yet"
        hint = "Look at `reef releases` and ask again with the head that stands."
        return Conflict(f"{stands}; you saw {seen or 'none'}.", hint, param="expected_head")

    def _require_there(self, prepared: Prepared) -> None:
        """Another process may have collected it, or discarded its own preparation of the same weights, meanwhile."""
        files = prepared.release.lora.files if prepared.release.lora else ()
        there = all(self.weights.path_of(stored.sha256).is_file() for stored in files)
        if not there or not self.reader.is_there(prepared.release.commit_id):
            raise Conflict(f"{prepared.manifest.release_id} was collected before it was published.", "Publish again.")
        if (of := prepared.draft.promotes) and of not in self.refs.below(held_refs(prepared.manifest.scenario)).values():
            raise Conflict(f"{prepared.manifest.restores} is not held any more.", "`reef releases` lists what is held.")

    def _drop_held(self, scenario: str, commit_id: str) -> None:
        for name, value in self.refs.below(held_refs(scenario)).items():
            if value == commit_id:
                self.refs.remove(name, commit_id)

    def tidy(self) -> None:
        """Finish what a killed writer left: temporary weights, mirrors one step behind, held refs of promoted or dismissed candidates."""
        with self._lock.held(), storing(self.path):
            self.weights.remove_temporaries()
            for scenario in self.scenarios():
                self._follow_head(scenario)
                for release_id in self.refs.dismissed_ids(scenario):
                    self.drop_held(scenario, release_id)

    def _follow_head(self, scenario: str) -> None:
        """What hangs on the head: its mirror for plain clones, and held refs whose candidate it promoted.

        The head has moved and is durable: a disk that fails now must not make the release look unpublished, and the
        next start does this again.
        """
        try:
            commit_id = self.refs.get(head_ref(scenario))
            if not commit_id:
                return
            head = self._read(commit_id, ReleaseState.PUBLISHED)  # before the mirror loses what it shows
            shown = self.refs.get(mirror_ref(scenario))
            if shown != commit_id:
                self._keep_foreign(scenario, shown)
                self.refs.point(mirror_ref(scenario), commit_id)
            for parent in head.parents[1:]:
                self._drop_held(scenario, parent)
        except (OSError, FileLocked, DataError) as error:
            _LOG.warning("The head of %s is published; what follows it waits for the next start: %s", scenario, error)

    def _keep_foreign(self, scenario: str, commit_id: str | None) -> None:
        """A commit that somebody pushed into the mirror gets a ref of its own before the mirror goes on; it may be their work."""
        try:
            if commit_id is not None:
                self._read(commit_id, ReleaseState.PUBLISHED)
        except git_objects.ForeignCommit as error:
            self.refs.replace(f"{OUTSIDE}{scenario}/{str(commit_id)[:12]}", str(commit_id))
            _LOG.warning("Somebody pushed into the branch %s. %s It is kept below %s", scenario, error.message, OUTSIDE)
        except DataError:
            return  # nothing that could be kept

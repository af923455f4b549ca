"""Git objects made anew from what is still there: what Reef writes follows from the manifest, so the same id means the same bytes.

The commit follows from its tree, the pointers to weights and their folder from the manifest, the root folder from the parts that it may
have. Texts (rules, evaluations, the manifest itself) follow from nothing: they need a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

from dulwich.objects import Blob, Commit, ObjectID, ShaFile, Tree
from dulwich.repo import Repo

from daemon.errors import DataError
from daemon.harness_tree import HarnessTree
from daemon.versions import git_objects
from daemon.versions.git_objects import MANIFEST_PATH, UNREADABLE
from daemon.versions.manifest import ArtifactKind, Manifest, read_manifest
from daemon.versions.mutations import read_mutations
from daemon.versions.release import LoRAFiles


class Rebuilder:
    """Reads the whole store once, when it is first asked."""

    def __init__(self, repo: Repo) -> None:
        self._repo = repo
        self._commits: dict[ObjectID, Commit] = {}
        self._trees: dict[ObjectID, Tree] = {}
        self._manifests: dict[ObjectID, Manifest] = {}  # by blob
        self._evaluations: list[ObjectID | None] = [None]
        self._mutations: dict[tuple[str, str], ObjectID] = {}  # by scenario and release id

    def made(self, wanted: set[str]) -> dict[str, ShaFile]:
        """Those of `wanted` that can be made."""
        self._read()
        found: dict[str, ShaFile] = {}
        for one in self._all():
            if one.id.decode() in wanted:
                found[one.id.decode()] = one
                if len(found) == len(wanted):
                    break
        return found

    def _read(self) -> None:
        self._commits, self._trees, self._manifests, self._evaluations, self._mutations = {}, {}, {}, [None], {}
        for object_id in self._repo.object_store:
            try:
                found = self._repo.object_store[object_id]
            except (KeyError, *UNREADABLE):
                continue
            if isinstance(found, Commit):
                self._commits[found.id] = found
            elif isinstance(found, Tree):
                self._trees[found.id] = found
            elif isinstance(found, Blob) and found.data.startswith(b"{"):
                self._note(found)

    def _note(self, blob: Blob) -> None:
        try:
            self._manifests[blob.id] = read_manifest(blob.data, "a file")
            return
        except DataError:
            pass
        try:
            said = read_mutations(blob.data, "a file")
            self._mutations[said.scenario, said.release_id] = blob.id
        except DataError:
            self._evaluations.append(blob.id)  # or any other JSON: what it makes has another id then

    def _all(self) -> Iterator[ShaFile]:
        """Parts before what is made of them. Of a release whose root folder is missing, with every evaluation that it may have had."""
        known = {tree[MANIFEST_PATH][1]: tree for tree in self._trees.values() if MANIFEST_PATH in tree}
        for blob_id, manifest in self._manifests.items():
            artifact = manifest.artifact(ArtifactKind.LORA)
            lora = LoRAFiles(artifact.content_id, artifact.files, artifact.details) if artifact is not None else None
            parts = git_objects.build(manifest, HarnessTree(), lora, None, [])[:-2]  # without commit and root folder
            yield from parts
            tree = known.get(blob_id)
            for root in [tree] if tree is not None else self._roots(blob_id, manifest, parts):
                yield root
                for parents in self._parents(manifest):
                    yield git_objects.commit_of(manifest, root.id, parents)

    def _roots(self, blob_id: ObjectID, manifest: Manifest, parts: list[ShaFile]) -> Iterator[Tree]:
        """Root folders that hold this manifest, one for each evaluation in the store, with and without weights."""
        harness = manifest.artifact(ArtifactKind.HARNESS)
        harness_id = self._harness(harness.content_id) if harness is not None else None
        lora = next((part for part in parts if isinstance(part, Tree)), None)
        said = self._mutations.get((manifest.scenario, manifest.release_id))
        for evaluation in self._evaluations:
            for weights in (lora, None) if lora is not None else (None,):
                yield git_objects.root_of(blob_id, evaluation, harness_id, weights.id if weights is not None else None, said)

    def _harness(self, content_id: str) -> ObjectID | None:
        for tree in self._trees.values():
            files = self._files(tree, "")
            if files and HarnessTree(files).content_id == content_id:
                return ObjectID(tree.id)
        return None

    def _files(self, tree: Tree, below: str) -> dict[str, str]:
        """Path → text; empty where the folder is none of texts alone, or something of it is missing."""
        files: dict[str, str] = {}
        for entry in tree.items():
            if entry.path is None or entry.sha is None:
                return {}
            name = f"{below}{entry.path.decode(errors='replace')}"
            if (folder := self._trees.get(entry.sha)) is not None:
                files |= self._files(folder, f"{name}/")
                continue
            try:
                found = self._repo.object_store[entry.sha]
                files[name] = found.data.decode() if isinstance(found, Blob) else ""
            except (KeyError, *UNREADABLE):
                return {}
        return files

    def _parents(self, manifest: Manifest) -> Iterator[list[str]]:
        """Of each commit that may have been its parent; with the held candidate that it promoted, where it did."""
        before = self._of(manifest.scenario, manifest.parent_release_id)
        if manifest.parent_release_id is None:
            yield []
        for parent in before:
            yield [parent]
            for held in self._of(manifest.scenario, manifest.restores) if manifest.restores is not None else ():
                yield [parent, held]

    def _of(self, scenario: str, release_id: str | None) -> list[str]:
        found = []
        for commit in self._commits.values():
            tree = self._trees.get(commit.tree)
            manifest = self._manifests.get(tree[MANIFEST_PATH][1]) if tree is not None and MANIFEST_PATH in tree else None
            if manifest is not None and (manifest.scenario, manifest.release_id) == (scenario, release_id):
                found.append(commit.id.decode())
        return found

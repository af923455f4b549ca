"""What a person changed by hand in an installed agent's harness, found by reading the agent's files back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from daemon.harness.adapter import Adapter, InstallContext
from daemon.harness.installed import read_manifest, read_tree
from daemon.harness.installing import Place
from daemon.harness_tree import HarnessTree


@dataclass(frozen=True, slots=True)
class HandEdits:
    release_id: str  # of the harness that was laid down; empty before the first release
    was: HarnessTree
    now: HarnessTree
    seen: Mapping[str, str]  # path below the agent's folder → text that was read

    @property
    def changed(self) -> list[str]:
        """What differs, a path of the tree each, with what happened to it."""
        found: list[str] = []
        for path in sorted({*self.was.files, *self.now.files}):
            before, after = self.was.files.get(path), self.now.files.get(path)
            if before != after:
                found.append(f"{path} ({'added' if before is None else 'removed' if after is None else 'changed'})")
        return found


def find_edits(adapter: Adapter, context: InstallContext) -> HandEdits:
    """Compare what the agent's files say with the tree that was laid down; of `context` only the place matters.

    Raises:
        DataError: a file that cannot be read; names it.
    """
    manifest = read_manifest(context.home)
    was = read_tree(context.home)
    seen = Place(context.home).current(adapter.reads)
    now = adapter.read_back(replace(context, tree=was), seen) if manifest is not None else was
    return HandEdits(manifest.release_id if manifest is not None else "", was, now, seen)

"""Pins: releases that a person wants kept whole, weights included, whatever is collected around them.

`refs/reef/scenarios/<s>/pins/<rN>` points to the release's commit. Pinning changes nothing that serves.
"""

from __future__ import annotations

from daemon.errors import Conflict
from daemon.failpoints import failpoint
from daemon.versions.kept import require_weights
from daemon.versions.names import named
from daemon.versions.refs import is_release_id, pin_refs
from daemon.versions.release import ReleaseState
from daemon.versions.repository import Repository
from daemon.versions.storage import storing


def pinned(repository: Repository, scenario: str) -> dict[str, str]:
    """Release id → commit id, of what is pinned."""
    found = ((name.rsplit("/", 1)[1], commit_id) for name, commit_id in repository.refs.below(pin_refs(scenario)).items())
    return {release_id: commit_id for release_id, commit_id in found if is_release_id(release_id)}


def pin(repository: Repository, scenario: str, name: str) -> tuple[str, bool]:
    """Keep a release until it is unpinned; durable when this returns.

    Args:
        name: as `named` takes it.

    Returns:
        The release's id, and whether it was not pinned before.

    Raises:
        NotFound: no such release. Conflict: a pin could keep nothing of it.
    """
    with repository.writing(), storing(repository.path):
        release = named(repository, scenario, name)
        if release.state is ReleaseState.HELD:
            raise Conflict(f"{release.id} is held, and what is held is kept; it needs no pin.", f"Let it serve: reef promote {release.id}")
        if release.state is ReleaseState.REJECTED:
            message = f"{release.id} was rejected: its weights are gone, and its trace stays without a pin."
            raise Conflict(message, "Pin one that has served.")
        require_weights(release, repository.weights, repository.tombstones)
        done = repository.refs.swap(pin_refs(scenario) + release.id, None, release.commit_id)
        failpoint("pin.set")
        return release.id, done


def unpin(repository: Repository, scenario: str, name: str) -> tuple[str, bool]:
    """Take the pin off; what the release holds may be collected from now on.

    Returns:
        The release's id, and whether it was pinned.

    Raises:
        NotFound: no such release.
    """
    with repository.writing(), storing(repository.path):
        release_id = named(repository, scenario, name).id
        commit_id = repository.refs.get(pin_refs(scenario) + release_id)
        if commit_id is None:
            return release_id, False
        repository.refs.remove(pin_refs(scenario) + release_id, commit_id)
        failpoint("pin.removed")
        return release_id, True

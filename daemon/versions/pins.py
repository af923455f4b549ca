"""Pins: releases that a person wants kept whole, weights included, whatever is collected around them.

`refs/reef/scenarios/<s>/pins/<rN>` points to the release's commit. Pinning changes nothing that serves.
"""

from __future__ import annotations

from daemon.errors import Conflict
from daemon.failpoints import failpoint
from daemon.versions.refs import is_release_id, pin_refs
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository
from daemon.versions.storage import storing


def pinned(repository: Repository, scenario: str) -> dict[str, str]:
    """Release id → commit id, of what is pinned."""
    found = ((name.rsplit("/", 1)[1], commit_id) for name, commit_id in repository.refs.below(pin_refs(scenario)).items())
    return {release_id: commit_id for release_id, commit_id in found if is_release_id(release_id)}


def pin(repository: Repository, scenario: str, release_id: str) -> bool:
    """Keep a release until it is unpinned; durable when this returns. False: it was pinned before.

    Raises:
        NotFound: no such release. Conflict: a pin could keep nothing of it.
    """
    with repository.writing(), storing(repository.path):
        release = repository.release(scenario, release_id)
        _check_keeps(repository, release)
        done = repository.refs.swap(pin_refs(scenario) + release.id, None, release.commit_id)
        failpoint("pin.set")
        return done


def unpin(repository: Repository, scenario: str, release_id: str) -> bool:
    """Take the pin off; what the release holds may be collected from now on. False: it was not pinned.

    Raises:
        NotFound: no such release.
    """
    with repository.writing(), storing(repository.path):
        name = pin_refs(scenario) + repository.release(scenario, release_id).id
        commit_id = repository.refs.get(name)
        if commit_id is None:
            return False
        repository.refs.remove(name, commit_id)
        failpoint("pin.removed")
        return True


def _check_keeps(repository: Repository, release: Release) -> None:
    if release.state is ReleaseState.HELD:
        raise Conflict(f"{release.id} is held, and what is held is kept; it needs no pin.", f"`reef promote {release.id}` lets it serve.")
    if release.state is ReleaseState.REJECTED:
        raise Conflict(f"{release.id} was rejected: its weights are gone, and its trace stays without a pin.", "Pin one that has served.")
    for stored in release.lora.files if release.lora else ():
        if not repository.weights.path_of(stored.sha256).is_file():
            raise Conflict(f"The weights of {release.id} are gone already; a pin would keep nothing.", "Pin a release while it has them.")

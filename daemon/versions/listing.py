"""The list of a scenario's releases: the chain, what is held, what was rejected, and what was promoted since, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from daemon.versions.kept import WeightState, weight_state
from daemon.versions.manifest import Operation
from daemon.versions.pins import pinned
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository


@dataclass(frozen=True, slots=True)
class Listed:
    """A release, and how it stands to the others now."""

    release: Release
    current: bool = False  # it is the head
    pinned: bool = False
    aged: bool = False  # held, and what serves is no longer what it was compared with
    promoted_as: str | None = None  # the release that lets this once held one serve
    weights_collected: bool = False  # given up for room: it can be looked at, and not serve


def listed(repository: Repository, scenario: str, limit: int, before: int | None = None) -> tuple[list[Listed], bool]:
    """A page of at most `limit`, of those whose number is below `before`; and whether more follow."""
    chain = repository.chain(scenario, limit + 1 if before is None else None)
    promoted = {candidate.id: release.id for release in chain for candidate in repository.promoted_by(release)}  # by what came later
    found = [*chain, *repository.held(scenario), *repository.rejected(scenario)]
    found += [candidate for release in chain for candidate in repository.promoted_by(release)]
    found = [release for release in found if before is None or release.manifest.number < before]
    found.sort(key=lambda release: -release.manifest.number)
    return standing(repository, scenario, found[:limit], promoted), len(found) > limit


def standing(repository: Repository, scenario: str, releases: Sequence[Release], promoted: dict[str, str] | None = None) -> list[Listed]:
    """`releases` of one scenario, each with how it stands to the others.

    Args:
        promoted: which release let which held one serve, where that is known.
    """
    head, kept = repository.head(scenario), pinned(repository, scenario)
    if promoted is None:
        asked = any(release.state is ReleaseState.PROMOTED for release in releases)
        chain = repository.chain(scenario) if asked else []
        promoted = {candidate.id: release.id for release in chain for candidate in repository.promoted_by(release)}
    return [
        Listed(
            release,
            current=head is not None and release.id == head.id,
            pinned=release.id in kept,
            aged=release.state is ReleaseState.HELD and has_aged(repository, release, head),
            promoted_as=promoted.get(release.id),
            weights_collected=weight_state(release, repository.weights, repository.tombstones) is WeightState.COLLECTED,
        )
        for release in releases
    ]


def has_aged(repository: Repository, held: Release, head: Release | None) -> bool:
    """Whether something else serves now than what a held candidate was evaluated against. What an agent proposed never was."""
    compared = held.manifest.parent_release_id
    if held.manifest.operation is Operation.PROPOSAL:
        return False
    if head is None or compared is None:
        return head is not None
    return compared != head.id and not repository.release(held.manifest.scenario, compared).serves_as(head)

"""The names that a person may type for a release: `r14`, `head`, `head~2`, `r14~1`."""

from __future__ import annotations

import re
from typing import Final

from daemon.errors import NotFound
from daemon.versions.release import Release
from daemon.versions.repository import Repository

HEAD: Final = "head"
_NAME = re.compile(r"(?P<name>[^~]*)(?:~(?P<steps>[0-9]{1,6}))?")


def named(repository: Repository, scenario: str, text: str) -> Release:
    """The release that `text` names; `~N` goes N steps back, each to the release that it was made on.

    Raises:
        NotFound: there is none; names the nearest ids, or says how far the chain goes.
    """
    match = _NAME.fullmatch(text.strip())
    if match is None:
        raise NotFound(f"{text[:40]!r} names no release.", "Name one such as r14, head, or head~1 for the one before it.")
    release = _start(repository, scenario, match["name"])
    steps = int(match["steps"] or 0)
    return _back(repository, scenario, release, steps) if steps else release


def _start(repository: Repository, scenario: str, name: str) -> Release:
    if name != HEAD:
        return repository.release(scenario, name)
    head = repository.head(scenario)
    if head is None:
        raise NotFound(f"The scenario {scenario} has no release yet.", "Send it a request first.")
    return head


def _back(repository: Repository, scenario: str, release: Release, steps: int) -> Release:
    newest = repository.chain(scenario, steps + 1)
    if newest and newest[0].id == release.id:  # from the head: nothing older is read
        path = newest
    else:
        chain = repository.chain(scenario)
        following = release.id if any(one.id == release.id for one in chain) else release.manifest.parent_release_id
        place = next((number for number, one in enumerate(chain) if one.id == following), len(chain))
        path = [release, *chain[place + (following == release.id) :]]
    if steps >= len(path):
        raise NotFound(
            f"There is nothing {steps} step{'s' if steps > 1 else ''} before {release.id}: {path[-1].id} is the first release.",
            "`reef releases` shows the chain.",
        )
    return path[steps]

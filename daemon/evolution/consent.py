"""A person's yes: what the guard finds in a held candidate is confirmed, one by one, before it may serve."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from daemon.errors import Conflict
from daemon.harness.finding import Finding, finding_id
from daemon.harness.guard import inspect
from daemon.harness_tree import HarnessTree
from daemon.versions.diff import FileChange, FileStatus, file_changes
from daemon.versions.personal import personal_lines
from daemon.versions.release import Release
from daemon.versions.repository import Repository

_MOST_COMPARED_BYTES = 2 * 1024 * 1024
"""Of all files that are shown together; of what is beyond, the name and that it differs."""


class Unconfirmed(Conflict):
    """Nothing has changed: a person has to say yes to what is found first."""

    code = "unconfirmed"

    def __init__(self, candidate: str, head: Release, findings: tuple[Finding, ...], files: tuple[FileChange, ...]) -> None:
        programs = sum(one.executable for one in findings)
        count = f"{len(findings)} thing{'' if len(findings) == 1 else 's'}"
        told = f", {programs} of them executable" if programs else ""
        super().__init__(
            f"The guard found {count}{told} in {candidate} that a person must see before it serves.",
            f"Nothing has changed. Look, then say yes: reef promote {candidate}",
        )
        self.candidate = candidate
        self.head = head.id
        self.findings = findings
        self.files = files


def unconfirmed(
    before: HarnessTree, after: HarnessTree, personal: Mapping[str, Collection[str]], confirmed: Collection[str]
) -> tuple[Finding, ...]:
    """What the guard finds in `after` and nobody said yes to. `confirmed`: ids of findings."""
    return tuple(one for one in inspect(before, after, personal) if finding_id(one) not in confirmed)


def require_yes(repository: Repository, head: Release, candidate: str, tree: HarnessTree, confirmed: Collection[str]) -> frozenset[str]:
    """The ids of what is found. Raises `Unconfirmed`, with all of it, unless all of it is confirmed.

    Args:
        tree: what would serve in place of `head`.
    """
    findings = tuple(inspect(head.tree, tree, personal_lines(repository, head.manifest.scenario)))
    found = frozenset(finding_id(one) for one in findings)
    if found <= frozenset(confirmed):
        return found
    raise Unconfirmed(candidate, head, findings, side_by_side(head.tree, tree, {one.path for one in findings}))


def with_yes(verdict: str, count: int) -> str:
    """A release keeps that a person said yes to something, and to how much."""
    told = f"a person said yes to {count} finding{'' if count == 1 else 's'} of the guard" if count else ""
    return "; ".join(part for part in (verdict, told) if part)


def side_by_side(before: HarnessTree, after: HarnessTree, paths: Collection[str]) -> tuple[FileChange, ...]:
    """These files of two trees, as far as there is room for them; of the rest, that they differ."""
    found: list[FileChange] = []
    room = _MOST_COMPARED_BYTES
    for path in sorted(paths):
        old, new = before.files.get(path), after.files.get(path)
        room -= len((old or "").encode()) + len((new or "").encode())
        if room >= 0:
            sides = [{} if text is None else {path: text} for text in (old, new)]
            found += file_changes(*sides)
        elif old != new:
            status = FileStatus.ADDED if old is None else FileStatus.REMOVED if new is None else FileStatus.CHANGED
            found.append(FileChange(path, status, "", ()))
    return tuple(found)

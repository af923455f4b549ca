"""Giving up a held candidate: its trace stays like that of one that was rejected, its weights go. There is no way back."""

from __future__ import annotations

from typing import Final

from daemon.errors import Conflict
from daemon.failpoints import failpoint
from daemon.versions.names import named
from daemon.versions.release import Release, ReleaseState
from daemon.versions.repository import Repository
from daemon.versions.storage import storing

DISMISSED: Final = "dismissed by "
"""How the verdict of a trace begins that a person made."""


def dismiss(repository: Repository, scenario: str, name: str, who: str) -> Release:
    """Durable when this returns; the trace, whose verdict says who gave it up and what the gate had said.

    Args:
        name: as `named` takes it.

    Raises:
        NotFound: no such release. Conflict: it is not held.
    """
    with repository.writing(), storing(repository.path):
        candidate = named(repository, scenario, name)
        if candidate.state is not ReleaseState.HELD:
            hint = "`reef releases` lists what is held; what has served stays in the chain."
            raise Conflict(f"{candidate.id} is {candidate.state}, not held.", hint)
        said = candidate.manifest.verdict
        trace = repository.leave_trace(candidate, f"{DISMISSED}{who}; the gate had said: {said}" if said else f"{DISMISSED}{who}")
        failpoint("dismiss.traced")
        repository.drop_held(scenario, candidate.id)
        failpoint("dismiss.dropped")
        return trace


def dismissed(repository: Repository, scenario: str) -> dict[str, str]:
    """Release id → who gave it up, of what was dismissed."""
    found: dict[str, str] = {}
    for trace in repository.rejected(scenario):
        if trace.manifest.verdict.startswith(DISMISSED):
            found[trace.id] = trace.manifest.verdict.removeprefix(DISMISSED).partition(";")[0]
    return found

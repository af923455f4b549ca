"""Scenarios come into being with their first request: an empty first release, so that there is always one to go back to."""

from __future__ import annotations

import asyncio

from daemon.config import SCENARIO_NAME
from daemon.engine.base import Engine
from daemon.errors import BadRequest, Conflict, DataError
from daemon.experience.operations import OperationLog, ReleaseFacts
from daemon.experience.store import Store
from daemon.records import JSON
from daemon.serving.releases import RepositoryReleases, base_facts
from daemon.serving.serving import Serving
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft, Release
from daemon.versions.repository import Repository


class Scenarios:
    """Creates scenarios, one at a time."""

    def __init__(
        self, repository: Repository, releases: RepositoryReleases, store: Store, serving: Serving, engine: Engine, log: OperationLog
    ) -> None:
        self._repository = repository
        self._releases = releases
        self._store = store
        self._serving = serving
        self._engine = engine
        self._log = log
        self._creating = asyncio.Lock()

    def exclusive(self) -> asyncio.Lock:
        """While it is held, no scenario comes into being."""
        return self._creating

    async def ensure(self, name: str) -> bool:
        """Make sure that `name` serves; True if it is new.

        Raises:
            BadRequest: no scenario name.
            StorageError: its first release cannot be written. DataError: it had releases, and its head is lost.
        """
        if self._serving.head(name) is not None:
            return False
        check_scenario_name(name)
        async with self._creating:
            if self._serving.head(name) is not None:
                return False
            stood = await asyncio.to_thread(self._repository.head, name)
            release = stood if stood is not None else await asyncio.to_thread(self._first_release, name)
            await asyncio.wrap_future(self._store.create_scenario(name))
            if stood is None:  # else it is back from the archive, and the log knows its releases
                await asyncio.wrap_future(self._log.published(name, _facts(release), None, {"change": release.manifest.change}))
            await self._serving.install(await self._releases.of(release))
            return True

    def _first_release(self, name: str) -> Release:
        if self._repository.has_numbered(name) and self._log.list(name, limit=1):
            message = f"The head of {name} is missing, and the operation log names releases of it."
            raise DataError(message, "Stop the daemon, then: reef fsck --repair, with --from BACKUP where nothing is found here.")
        model = self._engine.model
        settings: dict[str, JSON] = {"context_tokens": model.context_tokens}
        draft = Draft(scenario=name, operation=Operation.CREATION, base=base_facts(model), engine=settings, who="daemon")
        try:
            return self._repository.publish(draft, expected_head=None)
        except Conflict:  # another process was first
            head = self._repository.head(name)
            if head is None:
                raise
            return head


def _facts(release: Release) -> ReleaseFacts:
    manifest = release.manifest
    return ReleaseFacts(
        manifest.release_id,
        manifest.operation.value,
        manifest.lora_id,
        (),
        manifest.created_at,
        who=manifest.who,
        commit_id=release.commit_id,
        parent_commit_id=release.parents[0] if release.parents else "",
    )


def check_scenario_name(name: str) -> None:
    """Raise `BadRequest` for what is no scenario name."""
    if not SCENARIO_NAME.fullmatch(name):
        hint = "Use a-z, 0-9 and hyphens, at most 63, beginning with a letter or digit."
        raise BadRequest(f"{name[:80]!r} is no scenario name.", hint, param="scenario")

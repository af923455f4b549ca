"""Publishing: the one way in which what serves changes.

Order, each step durable before the next: weights → commit → smoke-load in the engine → compare-and-swap of the head → operation log →
swap in what serves. A crash between any two leaves the old or the new release, never a mix; start-up repairs the log from the manifests.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Literal

from daemon.engine.base import Engine, Finished, GenerateRequest, ModelInfo, Priority
from daemon.errors import Conflict, DataError, EngineError, ReefError
from daemon.evolution.consent import require_yes, with_yes
from daemon.experience.operations import OperationLog, ReleaseFacts
from daemon.failpoints import failpoint
from daemon.harness.validate import check_harness
from daemon.records import JSON, Sampling
from daemon.serving.releases import RepositoryReleases, base_facts
from daemon.serving.serving import Serving
from daemon.serving.snapshot import Snapshot
from daemon.versions import dismissing, operations, pins
from daemon.versions.release import Draft, Prepared, Release
from daemon.versions.repository import Repository

_log = logging.getLogger("reef.publish")
_SMOKE_PROMPT = "Say hello."
_SMOKE_TOKENS = 4
_SMOKE_TIMEOUT_S = 120.0
_INSTALL_TRIES = 5


class Publisher:
    """Publishes, holds, rejects, rolls back, undoes, promotes and pins. One operation at a time; lives on the event loop."""

    def __init__(self, repository: Repository, releases: RepositoryReleases, serving: Serving, engine: Engine, log: OperationLog) -> None:
        self._repository = repository
        self._releases = releases
        self._serving = serving
        self._engine = engine
        self._log = log
        self._lock = asyncio.Lock()

    def exclusive(self) -> asyncio.Lock:
        """While it is held, nothing else is published."""
        return self._lock

    async def publish(self, draft: Draft, expected_head: str | None) -> Release:
        """Make `draft` the release that serves.

        Raises:
            Conflict: the head is not `expected_head`; says which stands.
            DataError: the LoRA does not fit the model. EngineError: the engine cannot answer with it. StorageError: the disk.
            In each case what served goes on serving.
        """
        async with self._lock:
            return await self._publish(draft, expected_head)

    async def hold(self, draft: Draft) -> Release:
        """Keep a candidate for a person to promote; the one that is held already, where there is one like it."""
        async with self._lock:
            held = await asyncio.to_thread(operations.held_already, self._repository, draft)
            if held is not None:
                return held
            prepared = await asyncio.to_thread(self._repository.prepare, draft)
            release = await asyncio.to_thread(self._repository.hold, prepared)
            await self._note(release, "held")
            return release

    async def reject(self, draft: Draft) -> Release:
        """Leave the trace of a candidate that lost, without its weights."""
        async with self._lock:
            prepared = await asyncio.to_thread(self._repository.prepare, draft)
            release = await asyncio.to_thread(self._repository.reject, prepared)
            await self._note(release, "rejected")
            return release

    async def rollback(self, scenario: str, release_id: str, expected_head: str | None, who: str) -> Release:
        """Publish the content of an earlier release as a new one.

        Args:
            expected_head: the head that the caller saw; None: whatever stands.

        Raises:
            NotFound: no such release. Conflict: the head moved, nothing would change, or it was made for another base model.
        """
        repository = self._repository
        return await self._move(
            scenario, lambda: operations.rollback(repository, scenario, release_id, who=who, expected_head=expected_head)
        )

    async def undo(self, scenario: str, expected_head: str | None, who: str) -> Release:
        """Revert the last operation; an undo can itself be undone."""
        return await self._move(scenario, lambda: operations.undo(self._repository, scenario, who=who, expected_head=expected_head))

    async def promote(
        self, scenario: str, release_id: str, expected_head: str | None, who: str, confirmed: Collection[str] = frozenset()
    ) -> Release:
        """Publish a held candidate, if what it was evaluated against still serves; what an agent proposed, on whatever serves.

        Args:
            confirmed: ids of what the guard finds in it and a person said yes to.

        Raises:
            Unconfirmed: there is more that the guard finds. As `rollback` otherwise.
        """
        repository = self._repository

        def plan() -> Draft:
            draft = operations.promote(repository, scenario, release_id, who=who, expected_head=expected_head)
            head = repository.head(scenario)
            if head is None:
                return draft
            try:
                check_harness(draft.harness)
            except DataError as error:  # what an agent proposed is put onto what serves by now
                told = f"The changes of {draft.restores} and what {head.id} serves do not fit together: {error.message}"
                raise Conflict(told, f"Nothing has changed. Give it up: `reef dismiss {draft.restores}`.") from error
            yes = require_yes(repository, head, draft.restores or release_id, draft.harness, confirmed)
            return replace(draft, verdict=with_yes(draft.verdict, len(yes)))

        return await self._move(scenario, plan)

    async def pin(self, scenario: str, name: str, who: str) -> tuple[str, bool]:
        """Keep a release, weights included, whatever is collected: its id, and whether it was not pinned. Raises `NotFound`, `Conflict`."""
        return await self._pin("pin", scenario, name, who)

    async def unpin(self, scenario: str, name: str, who: str) -> tuple[str, bool]:
        """Take a pin off: the release's id, and whether it was pinned. Raises `NotFound`."""
        return await self._pin("unpin", scenario, name, who)

    async def dismiss(self, scenario: str, name: str, who: str) -> Release:
        """Give a held candidate up for good; its trace. Raises `NotFound`, `Conflict`."""
        async with self._lock:
            trace = await asyncio.to_thread(dismissing.dismiss, self._repository, scenario, name, who)
            await self._note_aside(scenario, "dismiss", trace.id, who)
        return trace

    async def _note_aside(self, scenario: str, operation: str, release_id: str, who: str) -> None:
        """A row about a release that is not the head's; what a crash keeps out of the log is added at the next start."""
        head = await asyncio.to_thread(self._repository.head, scenario)
        stands = head.id if head is not None else None
        await asyncio.wrap_future(self._log.append(scenario, operation, stands, stands, who, {"release_id": release_id}))

    async def _pin(self, operation: Literal["pin", "unpin"], scenario: str, name: str, who: str) -> tuple[str, bool]:
        act = pins.pin if operation == "pin" else pins.unpin
        async with self._lock:
            release_id, changed = await asyncio.to_thread(act, self._repository, scenario, name)
            if changed:
                await self._note_aside(scenario, operation, release_id, who)
        return release_id, changed

    async def _move(self, scenario: str, plan: Callable[[], Draft]) -> Release:
        async with self._lock:
            head = await asyncio.to_thread(self._repository.head, scenario)
            draft = await asyncio.to_thread(plan)
            return await self._publish(draft, head.id if head is not None else None)

    async def _publish(self, draft: Draft, expected_head: str | None) -> Release:
        head = await asyncio.to_thread(self._repository.head, draft.scenario)
        stands = head.id if head is not None else None
        if stands != expected_head:
            await self._follow(draft.scenario)
            hint = "Look at `reef releases` and ask again with the head that stands."
            raise Conflict(
                f"{stands or 'Nothing'} is the head of {draft.scenario} now; you saw {expected_head}.", hint, param="expected_head"
            )
        prepared = await asyncio.to_thread(self._repository.prepare, draft)
        try:
            snapshot = await self._releases.of(prepared.release)
        except BaseException:
            await self._discard(prepared)
            raise
        async with self._loaded(snapshot):
            try:
                await self._smoke(snapshot)
                failpoint("publish.smoke-loaded")
                release = await asyncio.to_thread(self._repository.advance, prepared, expected_head)
            except BaseException as error:
                await self._discard(prepared)
                if isinstance(error, Conflict):
                    await self._follow(draft.scenario)
                raise
            await self.note_published(release, stands)
            failpoint("publish.logged")
            await self._install(snapshot)
        _log.info("%s: %s serves (%s)", draft.scenario, release.id, release.manifest.change)
        return release

    async def _follow(self, scenario: str) -> None:
        """Where another process has moved the head, it serves and the log knows it; what fails here is done at the next start."""
        head = await asyncio.to_thread(self._repository.head, scenario)
        serving = self._serving.head(scenario)
        if head is None or serving is None or serving.release_id == head.id:
            return
        if not head.manifest.base.same_weights(base_facts(self._engine.model)):
            return
        try:
            chain = await asyncio.to_thread(self._repository.chain, scenario)
            await asyncio.wrap_future(self._log.rebuild(scenario, [facts_of(one) for one in reversed(chain)]))
            await self._install(await self._releases.of(head))
        except ReefError as error:
            _log.error("%s was published by another process and cannot serve: %s", head.id, error)

    @asynccontextmanager
    async def _loaded(self, snapshot: Snapshot) -> AsyncIterator[None]:
        """Keep the snapshot's LoRA in the engine until it is installed or given up."""
        key = f"publish-{snapshot.release_id}"
        self._serving.offer(key, snapshot.release_id, snapshot)
        try:
            yield
        finally:
            self._serving.withdraw(key)

    async def _smoke(self, snapshot: Snapshot) -> None:
        """Load the LoRA and answer one prompt with everything that the release adds."""
        lease = await self._serving.borrow(snapshot.scenario, snapshot.release_id, f"publish-{snapshot.release_id}")
        try:
            await answer_once(lease.engine, snapshot)
        finally:
            lease.release()

    async def _discard(self, prepared: Prepared) -> None:
        """Give back the disk, unless the head did move before the failure."""
        head = await asyncio.to_thread(self._repository.head, prepared.manifest.scenario)
        if head is None or head.commit_id != prepared.release.commit_id:
            await asyncio.to_thread(self._repository.discard, prepared)

    async def note_published(self, release: Release, before: str | None) -> None:
        """The release stands, and the log is told; what fails here is repaired from the manifests at the next start."""
        manifest = release.manifest
        try:
            await asyncio.wrap_future(self._log.published(manifest.scenario, facts_of(release), before, {"change": manifest.change}))
            failpoint("publish.noted")
            if manifest.restores is not None:  # experience that came after the restored release is free again
                chain = await asyncio.to_thread(self._repository.chain, manifest.scenario)
                await asyncio.wrap_future(self._log.rebuild(manifest.scenario, [facts_of(one) for one in reversed(chain)]))
        except ReefError as error:
            _log.error("%s is published, but the log could not be written: %s", release.id, error)

    async def _install(self, snapshot: Snapshot) -> None:
        for attempt in range(_INSTALL_TRIES):
            try:
                await self._serving.install(snapshot)
                return
            except EngineError:
                if attempt == _INSTALL_TRIES - 1:
                    raise
                await asyncio.sleep(0.5 * (attempt + 1))  # the engine restarts; the head has moved, so it must follow

    async def _note(self, release: Release, operation: str) -> None:
        manifest = release.manifest
        detail = {"change": manifest.change, "verdict": manifest.verdict}
        await asyncio.wrap_future(
            self._log.append(manifest.scenario, operation, manifest.parent_release_id, release.id, manifest.who, dict(detail))
        )


async def answer_once(engine: Engine, snapshot: Snapshot) -> None:
    """Raises EngineError, or what the engine refuses it with, if it does not answer one prompt with all that the release adds."""
    messages = snapshot.hints.apply(({"role": "user", "content": _SMOKE_PROMPT},))
    # Live: evaluation waits while anybody streams, and a long reply must not hold a rollback up.
    request = GenerateRequest(messages, Sampling(temperature=0.0), max_tokens=_SMOKE_TOKENS, lora=snapshot.lora, priority=Priority.LIVE)
    try:
        async with asyncio.timeout(_SMOKE_TIMEOUT_S):
            finished = [event async for event in engine.generate(request) if isinstance(event, Finished)]
    except TimeoutError as error:
        raise EngineError(f"{snapshot.release_id} did not answer within {_SMOKE_TIMEOUT_S:.0f} s.", "See `reef logs`.") from error
    if not finished:
        raise EngineError(f"{snapshot.release_id} gave no answer.", "See `reef logs`.")


def engine_settings(model: ModelInfo) -> dict[str, JSON]:
    """The engine settings that change what is computed, as a manifest pins them."""
    return {"context_tokens": model.context_tokens}


def facts_of(release: Release) -> ReleaseFacts:
    """What SQLite keeps of a release."""
    manifest = release.manifest
    return ReleaseFacts(
        manifest.release_id,
        manifest.operation.value,
        manifest.lora_id,
        manifest.records,
        manifest.created_at,
        manifest.restores,
        manifest.who,
        release.commit_id,
        release.parents[0] if release.parents else "",
    )

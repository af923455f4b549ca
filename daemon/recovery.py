"""At start: the heads that git knows serve again, and what stopped halfway is put right.

The manifests in git are the truth. A release whose base model is no longer the served one gives way to one without its LoRA.
"""

from __future__ import annotations

import asyncio
import logging

from daemon.engine.base import ModelInfo
from daemon.errors import DataError, ReefError, StorageError
from daemon.evolution.publish import engine_settings, facts_of
from daemon.experience.operations import OperationLog
from daemon.experience.runs import Run, RunStatus
from daemon.marked import kill_run
from daemon.mending import mend
from daemon.records import DEFAULT_SCENARIO
from daemon.services import Services
from daemon.serving.releases import base_facts
from daemon.versions.dismissing import dismissed
from daemon.versions.manifest import NewerManifest, Operation
from daemon.versions.pins import pinned
from daemon.versions.release import Draft, Release
from daemon.versions.repository import Repository

_log = logging.getLogger("reef.recovery")
_LOOK_AFTER_S = 5.0


async def recover(services: Services) -> None:
    """Install the head of every scenario; the default scenario comes into being if it is not there.

    A scenario that cannot serve is left out, with a warning for the owner; the others go on.
    """
    await _finish_published_runs(services)
    for run_id in await asyncio.wrap_future(services.runs.fail_unfinished("The daemon stopped while it ran.")):
        _log.warning("The run %s ended with the daemon; its experience is free again", run_id)
        await asyncio.to_thread(kill_run, services.home.runs / run_id)
    archived = await asyncio.to_thread(_archived, services)
    names = await asyncio.to_thread(services.repository.scenarios)
    known = await asyncio.to_thread(services.reader.scenarios)
    for name in dict.fromkeys([*names, DEFAULT_SCENARIO, *known]):
        if name in archived:
            continue
        try:
            await _start(services, name)
        except ReefError as error:
            if isinstance(error, StorageError) and name not in names:
                raise  # not even the first release can be written
            _log.error("The scenario %s cannot serve: %s", name, error)
            services.warnings.append(f"The scenario {name} does not serve: {error}")


async def _start(services: Services, name: str) -> None:
    """Let a scenario serve. Where its releases are damaged, what another copy in the home can mend is mended first."""
    try:
        await _recover_scenario(services, name)
    except NewerManifest:
        raise
    except DataError as error:
        _log.warning("The releases of %s are damaged: %s", name, error)
        for mended in await asyncio.to_thread(mend, services.home, services.repository):
            _log.warning("Repaired: %s", mended.message)
            services.warnings.append(f"Repaired at the start: {mended.message}")
        await _recover_scenario(services, name)


async def look_at_chains(services: Services) -> None:
    """Read every release once, a while after a start that read the heads alone. What is damaged is told, and mended at the next one."""
    await asyncio.sleep(_LOOK_AFTER_S)
    for name in await asyncio.to_thread(services.repository.scenarios):
        try:
            await asyncio.to_thread(services.repository.chain, name)
        except ReefError as error:
            await asyncio.wrap_future(services.log.doubt(name))
            sentence = f"An earlier release of {name} is damaged: {error.message} The next start mends what it can: reef down, reef up."
            _log.error(sentence)
            services.warnings.append(sentence)


async def _finish_published_runs(services: Services) -> None:
    """A run whose release stands has done its work, though the daemon died before it could say so."""
    for run in await asyncio.to_thread(services.runs.list):
        try:
            release = await asyncio.to_thread(_release_of, services, run) if run.status is RunStatus.RUNNING else None
        except ReefError:
            continue  # its scenario cannot serve, and says so
        if release is not None:
            verdict, _, sentence = release.manifest.verdict.partition(": ")
            finished = services.runs.finish(run.id, RunStatus.DONE, verdict=verdict, sentence=sentence, release_id=release.id)
            await asyncio.wrap_future(finished)


def _release_of(services: Services, run: Run) -> Release | None:
    repository = services.repository
    if run.scenario not in repository.scenarios():
        return None
    kept = (*repository.chain(run.scenario), *repository.held(run.scenario), *repository.rejected(run.scenario))
    return next((release for release in kept if release.manifest.run_id == run.id), None)


def _archived(services: Services) -> set[str]:
    """Scenarios that the owner put away."""
    reader = services.reader
    return set(reader.scenarios(archived=True)) - set(reader.scenarios())


async def _recover_scenario(services: Services, name: str) -> None:
    """Repair SQLite's view of the chain, then serve its head."""
    head = await asyncio.to_thread(services.repository.head, name)
    if head is None:
        await services.scenarios.ensure(name)
        return
    await asyncio.wrap_future(services.store.create_scenario(name))
    await agree(services.repository, services.log, head)
    base = base_facts(services.engine.model)
    if head.manifest.base.same_weights(base):
        await services.serving.install(await services.releases.of(head))
    else:
        await services.publisher.publish(for_base(head, services.engine.model, "daemon"), head.id)


async def agree(repository: Repository, log: OperationLog, head: Release) -> None:
    """Let SQLite say of the releases what git says: the log, which LoRAs have served, what is consumed."""
    name = head.manifest.scenario
    if not await asyncio.to_thread(log.agrees_with, name, head.commit_id):  # else nobody waits for a chain of thousands to be read
        chain = await asyncio.to_thread(repository.chain, name)
        missing = await asyncio.wrap_future(log.rebuild(name, [facts_of(release) for release in reversed(chain)]))
        if missing:
            _log.warning("%s: %d releases were missing from the log and were added", name, missing)
    pins, given_up = await asyncio.to_thread(lambda: (pinned(repository, name), dismissed(repository, name)))
    await asyncio.wrap_future(log.complete(name, head.id, pins, given_up))


def for_base(head: Release, model: ModelInfo, who: str) -> Draft:
    """The head's content on `model`, without the LoRA, which was made for another."""
    base = base_facts(model)
    taken_off = ", LoRA taken off" if head.lora is not None else ""
    change = f"base model {head.manifest.base.model} → {base.model}{taken_off}"
    return Draft(
        scenario=head.manifest.scenario,
        operation=Operation.RECOVERY,
        base=base,
        harness=head.tree,
        change=change,
        engine=engine_settings(model),
        who=who,
    )

"""At start: the heads that git knows serve again, and what stopped halfway is put right.

The manifests in git are the truth. A release whose base model is no longer the served one gives way to one without its LoRA.
"""

from __future__ import annotations

import asyncio
import logging

from daemon.errors import ReefError
from daemon.records import DEFAULT_SCENARIO
from daemon.services import Services
from daemon.serving.releases import RepositoryReleases, base_facts
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft, Release

_log = logging.getLogger("reef.recovery")


async def recover(services: Services, releases: RepositoryReleases) -> None:
    """Install the head of every scenario; the default scenario comes into being if it is not there.

    A scenario that cannot serve is left out, with a warning for the owner; the others go on.
    """
    for name in await asyncio.to_thread(services.repository.scenarios):
        try:
            release = await asyncio.to_thread(_head_for_base, services, name)
            if release is not None:
                await services.serving.install(await releases.of(release))
                await asyncio.wrap_future(services.store.create_scenario(name))
        except ReefError as error:
            _log.error("The scenario %s cannot serve: %s", name, error)
            services.warnings.append(f"The scenario {name} does not serve: {error}")
    known = await asyncio.to_thread(services.reader.scenarios)
    repository_names = await asyncio.to_thread(services.repository.scenarios)
    for name in dict.fromkeys([DEFAULT_SCENARIO, *known]):
        if name not in repository_names:
            await services.scenarios.ensure(name)


def _head_for_base(services: Services, scenario: str) -> Release | None:
    """The head; on another base model than the served one, a new release without the old LoRA."""
    head = services.repository.head(scenario)
    if head is None:
        return None
    base = base_facts(services.engine.model)
    if head.manifest.base.same_weights(base):
        return head
    taken_off = ", LoRA taken off" if head.lora is not None else ""
    change = f"base model {head.manifest.base.model} → {base.model}{taken_off}"
    draft = Draft(scenario=scenario, operation=Operation.RECOVERY, base=base, harness=head.tree, change=change, who="daemon")
    _log.warning("%s: %s", scenario, change)
    return services.repository.publish(draft, expected_head=head.id)

"""Keeps the experience within `storage.retention_bytes` and `storage.retention_days`, now and then, while nobody is held up."""

from __future__ import annotations

import asyncio
import logging
import time

from daemon.errors import ReefError
from daemon.experience.removal import forget
from daemon.experience.removal.retention import Limits, Removed, keep_within
from daemon.experience.removal.sweeping import was_erasing
from daemon.harness_tree import SERVING_HINTS_PATH
from daemon.services import Services
from daemon.serving_hints import ServingHints

_log = logging.getLogger("reef.retention")
_FIRST_S, _EVERY_S = 60.0, 3600.0


async def keep_forever(services: Services) -> None:
    """A minute after the start, then every hour. What a crash left of an erasing is finished at once."""
    await finish_erasing(services)
    await asyncio.sleep(_FIRST_S)
    while True:
        try:
            await keep_once(services)
        except ReefError as error:
            _log.warning("The experience could not be kept within its limits: %s", error)
        await asyncio.sleep(_EVERY_S)


async def finish_erasing(services: Services) -> None:
    """Sweep what nothing refers to any more, if the daemon died while it erased. A failing disk is noted, and tried at the next start."""
    try:
        if await asyncio.to_thread(was_erasing, services.store):
            await asyncio.to_thread(forget.resume, services.store)
            _log.info("What was being forgotten when the daemon died is gone")
    except ReefError as error:
        _log.warning("What was being forgotten could not be erased: %s", error)


async def keep_once(services: Services) -> Removed:
    """One round by the settings that hold now. Raises `StorageError`."""
    storage = services.config.storage
    limits = Limits(storage.retention_bytes, storage.retention_days)
    if not limits.bytes and not limits.days:
        return Removed()
    needed = await asyncio.to_thread(_needed, services)
    removed = await asyncio.to_thread(keep_within, services.store, services.reader, limits, needed, time.time())
    if removed.sessions:
        _log.info("%d old sessions with %d records were removed to make room", removed.sessions, removed.records)
    return removed


def _needed(services: Services) -> set[str]:
    """Receipts that a release or a held candidate was made from or shows."""
    repository = services.repository
    found: set[str] = set()
    for scenario in repository.refs.all_scenarios():
        for release in (*repository.chain(scenario), *repository.held(scenario)):
            found.update(release.manifest.records)
            text = release.tree.files.get(SERVING_HINTS_PATH)
            if text is not None and '"demonstrations"' in text:
                found.update(shown.source for shown in ServingHints.model_validate_json(text).demonstrations)
    return found

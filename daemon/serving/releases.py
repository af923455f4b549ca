"""From a release in the repository to a snapshot that can answer."""

from __future__ import annotations

import asyncio
import functools
from collections import OrderedDict
from pathlib import Path

from daemon.engine.base import LoRA, ModelInfo
from daemon.harness.hints import read_hints
from daemon.serving.snapshot import ReleaseSource, Snapshot
from daemon.versions.manifest import BaseModelFacts
from daemon.versions.release import Release
from daemon.versions.repository import Repository

_KEPT = 64


class RepositoryReleases(ReleaseSource):
    """Reads releases off the event loop and puts their LoRA files where the engine can map them."""

    def __init__(self, repository: Repository, loras: Path) -> None:
        """`loras`: the folder for checked-out LoRA files, named by their sha256."""
        self._repository = repository
        self._loras = loras
        self._kept: OrderedDict[tuple[str, str], Snapshot] = OrderedDict()

    def forget(self) -> None:
        """Read releases anew: their files were changed in place."""
        self._kept.clear()

    async def snapshot(self, scenario: str, release_id: str) -> Snapshot:
        """The snapshot of any release of a scenario, a held candidate included. Raises `NotFound`, `DataError`."""
        found = self._kept.get((scenario, release_id))
        if found is None:
            release = await asyncio.to_thread(self._repository.release, scenario, release_id)
            found = await self.of(release)
        return found

    async def head(self, scenario: str) -> Snapshot | None:
        """What the repository says should serve; None for a scenario without a release."""
        release = await asyncio.to_thread(self._repository.head, scenario)
        return await self.of(release) if release is not None else None

    async def of(self, release: Release) -> Snapshot:
        """The snapshot of `release`, its LoRA checked out and verified."""
        path = await asyncio.to_thread(self._repository.checkout_lora, release, self._loras)
        lora = LoRA(release.lora.id, path) if path is not None and release.lora is not None else None
        manifest = release.manifest
        snapshot = Snapshot(manifest.scenario, release.id, lora, read_hints(release.tree), release.content_id, manifest.base)
        self._kept[snapshot.scenario, snapshot.release_id] = snapshot
        if len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return snapshot


@functools.lru_cache(maxsize=4)  # each request asks
def base_facts(model: ModelInfo) -> BaseModelFacts:
    """What a manifest says of the base model that serves now."""
    return BaseModelFacts(
        model=model.id,
        file=model.path.name if model.path is not None else "",
        sha256=model.sha256,
        quantisation=model.quantisation,
        architecture=model.architecture,
        template_sha256=model.template_sha256,
    )

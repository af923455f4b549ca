"""The services that publishing and running need, real but for the engine."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from daemon.evolution.publish import Publisher
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.runs import RunStore
from daemon.experience.store import Store
from daemon.harness.hints import with_hints
from daemon.harness_tree import HarnessTree
from daemon.paths import Home
from daemon.serving.releases import RepositoryReleases, base_facts
from daemon.serving.scenarios import Scenarios
from daemon.serving.serving import Serving
from daemon.serving_hints import ServingHints
from daemon.versions.manifest import Operation
from daemon.versions.release import Draft
from daemon.versions.repository import Repository
from tests.engine.fake import ScriptedEngine


@dataclass(slots=True)
class Parts:
    home: Home
    engine: ScriptedEngine
    store: Store
    reader: Reader
    repository: Repository
    serving: Serving
    log: OperationLog
    runs: RunStore
    publisher: Publisher

    def draft(self, prefix: str = "", lora_folder: Path | None = None, operation: Operation = Operation.TRAINING) -> Draft:
        harness = with_hints(HarnessTree(), ServingHints(system_prefix=prefix)) if prefix else HarnessTree()
        return Draft(
            scenario="default",
            operation=operation,
            base=base_facts(self.engine.model),
            harness=harness,
            lora_folder=lora_folder,
            records=("rec_a",) if prefix else (),
            who="test",
        )

    @property
    def head(self) -> str | None:
        release = self.repository.head("default")
        return release.id if release is not None else None

    @property
    def served(self) -> str:
        snapshot = self.serving.head("default")
        return snapshot.release_id if snapshot is not None else ""


@contextlib.asynccontextmanager
async def parts(root: Path, engine: ScriptedEngine | None = None) -> AsyncIterator[Parts]:
    """With the scenario `default` and its empty first release."""
    home = Home(root)
    engine = engine or ScriptedEngine()
    await engine.start()
    store = await asyncio.to_thread(Store.open, home.database)
    reader = Reader(home.database)
    repository = Repository(home.versions)
    releases = RepositoryReleases(repository, home.loras)
    serving = Serving(engine, releases, idle_s=300)
    log = OperationLog(store, reader)
    await Scenarios(repository, releases, store, serving, engine, log).ensure("default")
    try:
        yield Parts(
            home,
            engine,
            store,
            reader,
            repository,
            serving,
            log,
            RunStore(store, reader),
            Publisher(repository, releases, serving, engine, log),
        )
    finally:
        reader.close()
        await asyncio.to_thread(store.close)
        repository.close()

"""Starts every service of a daemon, in order, and stops them in reverse."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator

from daemon import __version__
from daemon.config_load import LoadedConfig
from daemon.engine.base import Engine
from daemon.engine.served import ServedEngine
from daemon.evolution.publish import Publisher
from daemon.evolution.runner import Runner
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.runs import RunStore
from daemon.experience.store import Store
from daemon.harness.noticing import InstalledAgents
from daemon.paths import Home
from daemon.recovery import recover
from daemon.redaction.settings import redaction_of
from daemon.services import Services
from daemon.serving.releases import RepositoryReleases
from daemon.serving.scenarios import Scenarios
from daemon.serving.serving import Serving
from daemon.tokens import Role, Tokens
from daemon.versions.repository import Repository

_log = logging.getLogger("reef")


@contextlib.asynccontextmanager
async def services_for(home: Home, loaded: LoadedConfig, engine: Engine, base_url: str) -> AsyncIterator[Services]:
    """Start every service, `engine` among them, in order; stop them in reverse."""
    config = loaded.config
    tokens = Tokens.load(home, without_token=None if config.server.require_token else Role.CLIENT)
    async with contextlib.AsyncExitStack() as stack:
        store = await asyncio.to_thread(Store.open, home.database, redaction_of(config))
        stack.callback(store.close)
        reader = Reader(home.database)
        stack.callback(reader.close)
        repository = await asyncio.to_thread(Repository, home.versions)
        stack.callback(repository.close)
        served = ServedEngine(engine)
        stack.push_async_callback(served.stop)
        await engine.start()
        releases = RepositoryReleases(repository, home.loras)
        serving = Serving(engine, releases, idle_s=config.learn.idle_s)
        log, runs = OperationLog(store, reader), RunStore(store, reader)
        publisher = Publisher(repository, releases, serving, served, log)
        runner = Runner(home, served, serving, repository, runs, publisher, tokens)
        runner.configure(config, base_url, loaded.search_paths)
        stack.push_async_callback(runner.stop)
        services = Services(
            home=home,
            loaded=loaded,
            started_with=config,
            version=__version__,
            started_at=time.time(),
            base_url=base_url,
            store=store,
            reader=reader,
            engine=served,
            repository=repository,
            releases=releases,
            serving=serving,
            scenarios=Scenarios(repository, releases, store, serving, served, log),
            tokens=tokens,
            log=log,
            runs=runs,
            publisher=publisher,
            runner=runner,
            agents=InstalledAgents(home.agents),
        )
        if store.unreadable_bytes:
            services.warnings.append(f"{store.unreadable_bytes} bytes of the experience journal could not be read: reef fsck says more.")
        await recover(services)
        yield services


def _say(what: str) -> None:
    """What a start waits for: `reef up` shows it, `reef serve` prints it."""
    _log.info("Starting: %s", what)
    print(f"Starting: {what} …", file=sys.stderr, flush=True)

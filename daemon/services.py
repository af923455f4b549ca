"""What the routes work with: one of each service, made by `daemon.lifecycle`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from daemon.config import Config
from daemon.config_load import LoadedConfig
from daemon.engine.served import ServedEngine
from daemon.evolution.publish import Publisher
from daemon.evolution.runner import Runner
from daemon.experience.operations import OperationLog
from daemon.experience.reader import Reader
from daemon.experience.runs import RunStore
from daemon.experience.store import Store
from daemon.harness.noticing import InstalledAgents
from daemon.observing.measures import RequestMeasures
from daemon.observing.rates import Rates
from daemon.paths import Home
from daemon.serving.releases import RepositoryReleases
from daemon.serving.scenarios import Scenarios
from daemon.serving.serving import Serving
from daemon.tokens import Tokens
from daemon.versions.repository import Repository


@dataclass(slots=True)
class Services:
    """The parts of a running daemon. `loaded` is replaced when a configuration file changes, `started_with` when another model is served;
    the rest stays."""

    home: Home
    loaded: LoadedConfig
    started_with: Config  # what holds until a restart: listener, engine (but see `daemon.model_switch`), storage
    version: str
    started_at: float  # seconds since the epoch
    base_url: str  # http://127.0.0.1:8900
    store: Store
    reader: Reader
    engine: ServedEngine
    repository: Repository
    releases: RepositoryReleases
    serving: Serving
    scenarios: Scenarios
    tokens: Tokens
    log: OperationLog
    runs: RunStore
    publisher: Publisher
    runner: Runner
    agents: InstalledAgents
    measures: RequestMeasures = field(default_factory=RequestMeasures)  # what is asked of the daemon
    rates: Rates = field(default_factory=Rates)  # how fast tokens come, while somebody looks on
    warnings: list[str] = field(default_factory=list)  # what the owner should know: a restart is needed, a file is refused
    reconfigured: asyncio.Event = field(default_factory=asyncio.Event)  # `loaded` was replaced
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def config(self) -> Config:
        return self.loaded.config

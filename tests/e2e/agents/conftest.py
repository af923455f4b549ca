"""A scripted model, a daemon process in front of it, and the agents: shared by the tests of this folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agents.installed import Agents, project
from tests.e2e.agents.scripted import ScriptedServer
from tests.e2e.reef_home import ReefHome


@pytest.fixture(scope="session")
def agents(tmp_path_factory: pytest.TempPathFactory) -> Agents:
    kept = os.environ.get("REEF_TEST_AGENTS")
    return Agents(Path(kept) if kept else tmp_path_factory.mktemp("agents"))


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer() as server:
        yield server


@pytest.fixture(scope="module")
def reef(model: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReefHome]:
    """One daemon a module; give each test a scenario or a session of its own."""
    with ReefHome(tmp_path_factory.mktemp("reef") / "home", model.engine()) as home:
        home.start()
        yield home


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return project(tmp_path / "work")

"""For every test: the long ones only when asked for, and nothing of the user's own home is read or written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


def pytest_xdist_auto_num_workers() -> int:
    """`-n auto`: two a core, for half of the time a test waits for a process, a disk or a socket."""
    return 2 * (os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too")
    parser.addoption("--renew-snapshots", action="store_true", help="keep the pictures of the app as it looks now")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="long; run with --long"))


@pytest.fixture(autouse=True)
def _no_real_home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """REEF_HOME points into a temporary folder, and HOME too; only end-to-end tests keep HOME, where npm has its cache and settings."""
    home = tmp_path_factory.mktemp("user")
    if request.node.get_closest_marker("e2e") is None:
        monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("REEF_HOME", str(home / ".reef"))
    for name in ("REEF_SCENARIO", "REEF_FAILPOINT"):
        monkeypatch.delenv(name, raising=False)
    return home

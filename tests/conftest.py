"""For every test: the long ones only when asked for, and nothing of the user's own home is read or written."""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run the long tests too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    for item in items:
        if "long" in item.keywords:
            item.add_marker(pytest.mark.skip(reason="long; run with --long"))


@pytest.fixture(autouse=True)
def _no_real_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and REEF_HOME point into a temporary folder."""
    home = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("REEF_HOME", str(home / ".reef"))
    for name in ("REEF_SCENARIO", "REEF_FAILPOINT"):
        monkeypatch.delenv(name, raising=False)
    return home

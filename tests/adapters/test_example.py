"""A fifth adapter is one folder: it is found by its entry point, and passes what is asked of every adapter."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daemon.harness.adapter import HeadlessTask, InstallContext
from tests.adapters.contract import AdapterContract

if TYPE_CHECKING:
    from daemon.harness.npm_adapter import NpmAdapter

EXAMPLE = Path(__file__).with_name("example")


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The example as `pip install` leaves it: its package on the path, and metadata beside it."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    site = tmp_path / "site"
    metadata = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in points.items())
        for group, points in project["entry-points"].items()
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines))
    (site / "reef_brook").symlink_to(EXAMPLE / "reef_brook")
    monkeypatch.syspath_prepend(str(site))
    return site


class TestBrook(AdapterContract):
    @pytest.fixture
    def adapter(self, installed: Path) -> NpmAdapter:
        from daemon.harness.adapter import find_adapter
        from daemon.harness.npm_adapter import NpmAdapter

        found = find_adapter("brook")
        assert isinstance(found, NpmAdapter)
        return found

    def test_a_task_is_played(self, adapter: NpmAdapter, context: InstallContext, tmp_path: Path) -> None:
        adapter.install(context)
        outcome = adapter.run_task(context, HeadlessTask("Hello.", tmp_path, timeout_s=20, environment={"PATH": os.environ["PATH"]}))
        assert (outcome.exit_code, outcome.text, outcome.timed_out) == (0, "1.2.0 run", False)


def test_the_command_line_finds_it_and_what_it_keeps(installed: Path) -> None:
    def reef(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-P", "-m", "reef_cli.main", *arguments]
        return subprocess.run(command, env={**os.environ, "PYTHONPATH": str(installed)}, capture_output=True, text=True, check=False)

    listed = reef("adapters").stdout
    assert "brook\n  Not installed. To have it: reef install brook" in listed and "no prompt templates" in listed
    looked = reef("import", "brook")
    assert looked.returncode == 1 and "There are no sessions of brook" in looked.stderr, looked.stderr

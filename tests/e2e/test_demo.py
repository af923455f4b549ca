"""`reef demo`, as a person runs it: every step holds, and what it measured is in its JSON. About ten minutes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.long
@pytest.mark.timeout(2400)
def test_every_step_of_the_demo_holds(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "reef_cli.main", "demo", "--json"]
    environment = {**os.environ, "TMPDIR": str(tmp_path), "REEF_HOME": str(tmp_path / "own-home")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(done.stdout)
    assert result["held"] and not result["failures"]
    before, *_, learned, back = result["stages"]
    assert all(stage["tasks"] >= 20 for stage in result["stages"])
    assert learned["form"] > before["form"] and back["form"] == before["form"]
    assert not (tmp_path / "own-home").exists(), "the demo must leave the user's own home alone"
    assert not list(tmp_path.glob("reef-demo-*")), "its temporary home must be gone"


def test_too_short_a_history_is_refused_before_anything_starts(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    command = [sys.executable, "-P", "-m", "reef_cli.main", "demo", "--repo", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr

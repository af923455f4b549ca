"""Several daemons started for one home in the same moment."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.faults.upstream import home_over, upstream

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

STARTED = 4


def test_one_of_them_runs_and_the_others_say_so(tmp_path: Path) -> None:
    with upstream() as server, home_over(server, tmp_path / "home") as reef:
        command = [sys.executable, "-P", "-m", "daemon", "serve", "--home", str(reef.root)]
        started = [
            subprocess.Popen(command, env=reef.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            for _ in range(STARTED)
        ]
        try:
            deadline = time.monotonic() + 30
            while sum(one.poll() is not None for one in started) < STARTED - 1:
                assert time.monotonic() < deadline, "more than one daemon runs for one home"
                time.sleep(0.05)
            for one in started:
                if one.poll() is not None:
                    _, said = one.communicate()
                    assert one.returncode == 1 and "already runs" in said and "Traceback" not in said, said
            assert sum(one.poll() is None for one in started) == 1, "one of them serves"
        finally:
            for one in started:
                if one.poll() is None:
                    one.terminate()
                    one.communicate(timeout=30)

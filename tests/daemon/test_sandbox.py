"""A checker's command leaves nothing behind."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from daemon import sandbox


def test_without_bubblewrap_a_process_that_left_its_group_and_lost_its_parent_is_ended_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandbox, "isolation", lambda: "limits only")
    command = "import os, time; os.fork() and os._exit(0); os.setsid(); open('pid', 'w').write(str(os.getpid())); time.sleep(300)"
    wait = "while [ ! -s pid ]; do sleep .05; done"
    outcome = sandbox.run(["/bin/sh", "-c", f'python3 -c "{command}"; {wait}'], tmp_path, limits=sandbox.Limits(seconds=20))
    assert outcome.passed, outcome.output
    pid, deadline = int((tmp_path / "pid").read_text()), time.monotonic() + 5
    while psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline, "it is still alive"
        time.sleep(0.05)

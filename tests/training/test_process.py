"""The trainer as the run process meets it: a child of its own, that can be stopped, killed, or go wrong."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from daemon.errors import DataError
from daemon.records import JSONObject
from daemon.training.job import Sample, write_job
from daemon.training.process import run_job
from tests.training.tiny import SAMPLES, tiny_job, write_tiny_gguf


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return write_tiny_gguf(tmp_path / "tiny.gguf")


def test_a_training_runs_in_its_own_process_group_at_low_priority(base: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "job", tiny_job(base), SAMPLES)
    seen: list[tuple[JSONObject, int, int]] = []

    def on_event(event: JSONObject) -> None:
        pid = seen[0][0]["pid"] if seen else event["pid"]
        assert isinstance(pid, int)
        seen.append((event, os.getpgid(pid), os.getpriority(os.PRIO_PROCESS, pid)))

    result = run_job(tmp_path / "job", on_event)
    assert [event["type"] for event, _, _ in seen] == ["trainer"] + ["step"] * 4
    assert {group for _, group, _ in seen} == {seen[0][0]["pid"]}
    assert seen[-1][2] == 19
    assert result.steps == 4


def test_a_killed_trainer_is_reported_and_leaves_no_lora(base: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "job", tiny_job(base, steps=100_000), SAMPLES)
    pids: list[int] = []

    def on_event(event: JSONObject) -> None:
        if isinstance(event.get("pid"), int):
            pids.append(int(str(event["pid"])))
        elif event["step"] == 2:
            os.kill(pids[0], signal.SIGKILL)

    with pytest.raises(DataError, match="killed by signal 9"):
        run_job(tmp_path / "job", on_event)
    assert not (tmp_path / "job" / "lora.gguf").exists()


def test_a_refusal_comes_back_with_its_sentence(base: Path, tmp_path: Path) -> None:
    write_job(tmp_path / "job", tiny_job(base), [Sample(prompt=(1,), completion=(99,))])
    with pytest.raises(DataError, match="outside the vocabulary"):
        run_job(tmp_path / "job", lambda _: None)


def test_the_client_of_the_trainer_never_imports_torch() -> None:
    code = "import sys, daemon.training.process, recipes.sft.recipe; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

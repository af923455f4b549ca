"""Checkers and the sandbox: a right reply passes, a hostile or broken command harms nothing and ends in time."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import psutil
import pytest

from daemon import sandbox
from daemon.errors import DataError, StorageError
from daemon.evolution.checkers import judge
from daemon.evolution.tasks import Task
from daemon.records import JSON


def score(tmp_path: Path, check: dict[str, JSON], reply: str) -> float:
    task = Task.model_validate({"id": "t", "prompt": "p", "check": check})
    return judge(task, reply, scratch=tmp_path / "scratch").score


def test_text_and_pattern(tmp_path: Path) -> None:
    assert score(tmp_path, {"text": "hello"}, " hello\n") == 1
    assert score(tmp_path, {"text": "hello"}, "hello there") == 0
    pattern = r"^(feat|fix)(\([a-z]+\))?: .{5,72}$"
    assert score(tmp_path, {"pattern": pattern}, "fix(cache): correct memory leak\n") == 1
    assert score(tmp_path, {"pattern": pattern}, "Here is a message:\nfix: x") == 0


def test_json_schema(tmp_path: Path) -> None:
    schema: dict[str, JSON] = {"json_schema": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}
    assert score(tmp_path, schema, '{"name": "a"}') == 1
    assert score(tmp_path, schema, '```json\n{"name": "a"}\n```') == 1
    assert score(tmp_path, schema, '{"name": 3}') == 0
    assert score(tmp_path, schema, "sure, here it is") == 0
    assert score(tmp_path, schema, "[" * 100_000) == 0


def test_a_task_that_cannot_be_judged_is_named(tmp_path: Path) -> None:
    """A run that ends by it says so, and does not call it a bug of ours."""
    with pytest.raises(DataError, match=r"task t refers to what is not in it: /\$defs/missing"):
        score(tmp_path, {"json_schema": {"properties": {"a": {"$ref": "#/$defs/missing"}}}}, '{"a": 1}')
    with pytest.raises(StorageError, match="working copy of task t"):
        score(tmp_path, {"command": "true", "workspace": str(tmp_path / "gone")}, "x")
    assert score(tmp_path, {"json_schema": {"$ref": "#"}}, "1") == 0


def test_a_command_sees_the_reply_and_a_fresh_copy_each_time(tmp_path: Path) -> None:
    workspace = tmp_path / "project"
    workspace.mkdir()
    (workspace / "wanted.txt").write_text("hello")
    check: dict[str, JSON] = {
        "command": 'test ! -e left && touch left && rm wanted.txt && test "$(cat)" = "$(cat reply.txt)" && grep -q hello reply.txt',
        "workspace": str(workspace),
    }
    assert score(tmp_path, check, "hello") == 1
    assert score(tmp_path, check, "hello") == 1
    assert score(tmp_path, check, "goodbye") == 0
    assert [path.name for path in workspace.iterdir()] == ["wanted.txt"]
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_command_gets_no_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("REEF_OWNER", "secret")
    outcome = sandbox.run([sys.executable, "-c", "import os; print(sorted(os.environ)); print(os.environ['HOME'])"], tmp_path)
    assert outcome.passed
    assert "OPENAI" not in outcome.output
    assert "REEF" not in outcome.output
    assert str(Path.home()) not in outcome.output.splitlines()[-1]


def test_a_command_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    script = (
        "import os, subprocess, time\n"
        "grandchild = subprocess.Popen(['sleep', '300'], start_new_session=True)\n"
        "open('pid', 'w').write(str(grandchild.pid))\n"
        "time.sleep(300)\n"
    )
    started = time.monotonic()
    outcome = sandbox.run([sys.executable, "-c", script], tmp_path, limits=sandbox.Limits(seconds=1.5))
    assert outcome.timed_out
    assert not outcome.passed
    assert time.monotonic() - started < 10
    if sandbox.isolation() != "bubblewrap":  # there, process ids are the sandbox's own
        pid = int((tmp_path / "pid").read_text())
        for _ in range(50):
            if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return
            time.sleep(0.05)
        pytest.fail("the grandchild is still alive")


def test_a_command_cannot_fill_memory_or_disk(tmp_path: Path) -> None:
    limits = sandbox.Limits(seconds=20, memory_bytes=512 << 20, file_bytes=1 << 20)
    assert not sandbox.run([sys.executable, "-c", "bytearray(2 << 30)"], tmp_path, limits=limits).passed
    assert not sandbox.run([sys.executable, "-c", "open('big', 'wb').write(bytes(8 << 20))"], tmp_path, limits=limits).passed
    assert (tmp_path / "big").stat().st_size <= 1 << 20
    noisy = sandbox.run(["/bin/sh", "-c", "yes"], tmp_path, limits=limits)
    assert not noisy.passed
    assert len(noisy.output) <= 4096


def test_a_command_that_is_not_there_fails(tmp_path: Path) -> None:
    assert sandbox.run(["/no/such/program"], tmp_path).exit_code == 127


def test_a_background_process_does_not_hold_the_check_open(tmp_path: Path) -> None:
    started = time.monotonic()
    assert sandbox.run(["/bin/sh", "-c", "sleep 300 & exit 0"], tmp_path).passed
    assert time.monotonic() - started < 5


@pytest.mark.skipif(sandbox.isolation() != "bubblewrap", reason="bubblewrap is not installed here")
def test_under_bubblewrap_nothing_outside_is_written_and_hidden_places_are_empty(tmp_path: Path) -> None:
    work, secret = tmp_path / "work", tmp_path / "secret"
    work.mkdir()
    secret.mkdir()
    (secret / "checker").write_text("the answer")
    script = f"cat {secret}/checker; touch {tmp_path}/outside; touch inside"
    outcome = sandbox.run(["/bin/sh", "-c", script], work, hidden=[secret])
    assert "the answer" not in outcome.output
    assert not os.path.exists(tmp_path / "outside")
    assert (work / "inside").exists()

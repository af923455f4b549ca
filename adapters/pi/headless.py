"""One task for pi without a terminal."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

import psutil

from adapters.pi.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.runtime import Program

_LOG_CHARACTERS = 20_000
_GRACE_S = 5


def run_headless(program: Program, own: Mapping[str, str], task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy; pi and whatever it started are gone when this returns, but for what detached itself
    from pi before pi ended.

    The prompt goes in on stdin: as an argument it would be seen in the process list, and `@name` in it would be read as a file.

    Args:
        own: the variables that point pi at its folder.
    """
    command = [str(program.command), "--mode", "json", "--print"]
    if task.session:
        command += ["--session-id", task.session]
    environment = {**program.environment(task.environment), **own}
    timed_out = False
    # Files, not pipes: something that pi leaves in the background would hold a pipe open long after the task is over.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, cwd=task.working_copy, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=log, start_new_session=True
        )
        try:
            process.communicate(task.prompt.encode(errors="replace"), timeout=task.timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
        said, logged = _text(output), _text(log)
    outcome = read_events(said.splitlines())
    error = f"No answer within {task.timeout_s:.0f} s." if timed_out else outcome.error
    return TaskOutcome(
        exit_code=process.returncode if process.returncode != 0 or not error else 1,
        text=outcome.reply,
        timed_out=timed_out,
        log=logged[-_LOG_CHARACTERS:],
        details={
            "error": error,
            "response_ids": list(outcome.response_ids),
            "input_tokens": outcome.input_tokens,
            "output_tokens": outcome.output_tokens,
        },
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of pi, gently first: its group, and what left the group but is still its descendant."""
    started: list[psutil.Process] = []
    with contextlib.suppress(psutil.Error):
        started = psutil.Process(process.pid).children(recursive=True)
    if process.poll() is None:
        _signal(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    _signal(process.pid, signal.SIGKILL)
    for one in started:
        with contextlib.suppress(psutil.Error):
            one.kill()
    process.wait()


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode(errors="replace")

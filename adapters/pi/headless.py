"""One task for pi without a terminal."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

from adapters.pi.events import read_events
from adapters.pi.runtime import Runtime
from daemon.errors import Unsupported
from daemon.harness.adapter import HeadlessTask, TaskOutcome

_LOG_CHARACTERS = 20_000
_GRACE_S = 5


def run_headless(runtime: Runtime, agent_folder: Path, task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy; pi and whatever it started are gone when this returns.

    The prompt goes in on stdin: as an argument it would be seen in the process list, and `@name` in it would be read as a file.

    Raises:
        Unsupported: pi is not installed.
    """
    if not runtime.pi.exists():
        raise Unsupported("pi is not installed.", "Run `reef install pi`.")
    command = [str(runtime.pi), "--mode", "json", "--print"]
    if task.session:
        command += ["--session-id", task.session]
    environment = {**runtime.environment(task.environment), "PI_CODING_AGENT_DIR": str(agent_folder)}
    process = subprocess.Popen(
        command,
        cwd=task.working_copy,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )
    timed_out = False
    try:
        output, log = process.communicate(task.prompt, timeout=task.timeout_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        output, log = _end(process)
    except BaseException:
        _end(process)
        raise
    outcome = read_events(output.splitlines())
    error = f"No answer within {task.timeout_s:.0f} s." if timed_out else outcome.error
    return TaskOutcome(
        exit_code=process.returncode if process.returncode != 0 or not error else 1,
        text=outcome.reply,
        timed_out=timed_out,
        log=log[-_LOG_CHARACTERS:],
        details={
            "error": error,
            "response_ids": list(outcome.response_ids),
            "input_tokens": outcome.input_tokens,
            "output_tokens": outcome.output_tokens,
        },
    )


def _end(process: subprocess.Popen[str]) -> tuple[str, str]:
    """End pi's process group, gently first; what it had said so far."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            return process.communicate(timeout=_GRACE_S)
        except subprocess.TimeoutExpired:
            continue
    return process.communicate()

"""One agent without a terminal: a process with a time limit that is gone, with all that it started, when its task is over."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import psutil

from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.records import JSONObject

_LOG_CHARACTERS: Final = 20_000
_OUTPUT_BYTES: Final = 64 << 20
"""An agent that writes more than this on stdout has lost its way; what is read of it ends here."""
_GRACE_S = 5


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    exit_code: int  # negative: by that signal
    output: str  # what it wrote to stdout
    log: str  # the end of what it wrote to stderr
    timed_out: bool


def run_to_end(command: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: str, timeout_s: float) -> Ended:
    """Run `command` in a process group of its own and wait until it has ended or `timeout_s` has passed.

    The process and whatever it started are gone when this returns, but for what detached itself from it before it ended.

    Args:
        environment: the whole of it.
        stdin: a prompt belongs here: as an argument it would be seen in the process list.

    Raises:
        OSError: it cannot be started.
    """
    timed_out = False
    # Files, not pipes: something that the agent leaves in the background would hold a pipe open long after the task is over.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            list(command), cwd=cwd, env=environment, stdin=subprocess.PIPE, stdout=output, stderr=log, start_new_session=True
        )
        try:
            process.communicate(stdin.encode(errors="replace"), timeout=timeout_s)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            _end(process)
        return Ended(process.returncode, _text(output), _text(log)[-_LOG_CHARACTERS:], timed_out)


def task_outcome(task: HeadlessTask, ended: Ended, reply: str, error: str, details: JSONObject) -> TaskOutcome:
    """What became of a task: agents end with exit code 0 whatever they say of it, so an `error` that they told of makes it 1."""
    error = f"No answer within {task.timeout_s:.0f} s." if ended.timed_out else error
    exit_code = ended.exit_code if ended.exit_code != 0 or not error else 1
    return TaskOutcome(exit_code, reply, ended.timed_out, ended.log, {"error": error, **details})


def _end(process: subprocess.Popen[bytes]) -> None:
    """End what is left of it, gently first: its group, and what left the group but is still its descendant."""
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
    return stream.read(_OUTPUT_BYTES).decode(errors="replace")

"""One task for pi without a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.pi.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end
from daemon.harness.runtime import Program


def run_headless(program: Program, own: Mapping[str, str], task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy.

    The prompt goes in on stdin: as an argument it would be seen in the process list, and `@name` in it would be read as a file.

    Args:
        own: the variables that point pi at its folder.
    """
    command = [str(program.command), "--mode", "json", "--print"]
    if task.session:
        command += ["--session-id", task.session]
    ended = run_to_end(command, task.working_copy, {**program.environment(task.environment), **own}, task.prompt, task.timeout_s)
    outcome = read_events(ended.output.splitlines())
    error = f"No answer within {task.timeout_s:.0f} s." if ended.timed_out else outcome.error
    return TaskOutcome(
        exit_code=ended.exit_code if ended.exit_code != 0 or not error else 1,
        text=outcome.reply,
        timed_out=ended.timed_out,
        log=ended.log,
        details={
            "error": error,
            "response_ids": list(outcome.response_ids),
            "input_tokens": outcome.input_tokens,
            "output_tokens": outcome.output_tokens,
        },
    )

"""One task for opencode without a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.opencode.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end
from daemon.harness.runtime import Program


def run_headless(program: Program, own: Mapping[str, str], task: HeadlessTask) -> TaskOutcome:
    """Play `task` in its working copy. What opencode would ask a person for, such as a file outside of it, is refused.

    The prompt goes in on stdin: as an argument it would be seen in the process list, and opencode would put it in quotation marks.

    Args:
        own: the variables that point opencode at its folder.
    """
    session = {"REEF_SESSION": task.session} if task.session else {}
    environment = {**program.environment(task.environment), **own, **session}
    command = [str(program.command), "run", "--format", "json"]
    ended = run_to_end(command, task.working_copy, environment, task.prompt, task.timeout_s)
    outcome = read_events(ended.output.splitlines())
    error = f"No answer within {task.timeout_s:.0f} s." if ended.timed_out else outcome.error
    return TaskOutcome(
        exit_code=ended.exit_code if ended.exit_code != 0 or not error else 1,
        text=outcome.reply,
        timed_out=ended.timed_out,
        log=ended.log,
        details={
            "error": error,
            "agent_session": outcome.session,
            "input_tokens": outcome.input_tokens,
            "output_tokens": outcome.output_tokens,
        },
    )

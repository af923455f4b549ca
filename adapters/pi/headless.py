"""One task for pi without a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.pi.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end, task_outcome
from daemon.harness.runtime import Program
from daemon.records import JSONObject


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
    details: JSONObject = {
        "response_ids": list(outcome.response_ids),
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
    }
    return task_outcome(task, ended, outcome.reply, outcome.error, details)

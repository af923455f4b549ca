"""One task for opencode without a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from adapters.opencode.events import read_events
from daemon.harness.adapter import HeadlessTask, TaskOutcome
from daemon.harness.headless import run_to_end, task_outcome
from daemon.harness.runtime import Program
from daemon.records import JSONObject


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
    details: JSONObject = {
        "agent_session": outcome.session,
        "input_tokens": outcome.input_tokens,
        "output_tokens": outcome.output_tokens,
    }
    return task_outcome(task, ended, outcome.reply, outcome.error, details)
